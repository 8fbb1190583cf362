"""Building a direct way: the function in `bcspec.torch.direct`, specialised for one cache entry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from .. import install
from ..api import watch
from ..errors import SpecializationError
from ..evaluate import Request, evaluate
from ..knowledge import Equivalent, Refinement
from . import internals
from .calls import MAKER, Shape, Target
from .chain import (
    c_apply,
    graph_knowledge,
    is_compiled_function,
    is_inductor_graph,
    reachable,
    undisabled,
)
from .direct import make_direct
from .established import Guarded, guarded
from .frames import TransformedFrame, calls_of
from .graph import refine
from .layer import trusts_guards
from .settle import generic_of

#: How the names begin that Dynamo adds to the globals of a frame.
DYNAMO_NAMES = ("__compiled_fn_", "__import_")


@dataclass(frozen=True)
class Way:
    """A direct way: the cache entry and the kind of call it is for, its function, and what says where
    it falls back to."""

    frame: TransformedFrame
    shape: Shape
    function: Callable[..., Any]
    link: Callable[[Callable[..., Any]], None]


def build(
    frame: TransformedFrame, root: Any, target: Target, shape: Shape, values: tuple[Any, ...]
) -> Way:
    """The direct way for one cache entry, with frame and graph unfolded.

    Args:
        frame: what Dynamo made of the user's function.
        root: the root of the entry's guards.
        target: what runs.
        shape: how the function is called.
        values: its arguments in such a call, for which the guards hold.

    Raises:
        BcspecError: it cannot be specialised.
    """
    function = target.function
    calls = calls_of(frame.copy, function.__globals__)
    body = FunctionType(
        frame.copy,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    body.__kwdefaults__ = function.__kwdefaults__
    inner = {called: without_dynamo(called) for called in calls}
    graphs = [plain for called, plain in inner.items() if not internals.is_frame_helper(called)]
    parts = [part for graph in graphs for part in reachable(graph)]
    knowledge = graph_knowledge(parts)
    # Dynamo's callback is not set here: the entry has made sure of it.
    for called, plain in inner.items():
        if plain is not called:
            knowledge.equivalents[called] = Equivalent(plain)
    for each in target.modules:
        knowledge.volatile[id(each), "forward"] = "users replace it"
    module = function.__globals__.get("__name__", "")
    for name in frame.copy.co_names:
        if name.startswith(DYNAMO_NAMES):
            knowledge.stable_globals[module, name] = "Dynamo makes this name once"
    knowledge.constant_cells[MAKER] = "bound when the function is made"
    direct, link = make_direct(
        target, shape, body, root.check, not any(map(is_inductor_graph, parts))
    )
    assert isinstance(direct, FunctionType)
    facts = guarded(root, shape, values) if trusts_guards() else Guarded({}, {}, [])
    knowledge.attribute_types.update(facts.attributes)
    knowledge.ambient += facts.ambient
    request = Request(direct, types={**facts.parameters}, knowledge=knowledge, check=root.check)
    residual = evaluate(request)
    for cls in filter(is_compiled_function, parts):
        apply = c_apply(cls)
        calls = [known for f, known in residual.calls if type(f) is type(apply) and f == apply]
        if len(calls) == 1:
            refine(cls, [each if isinstance(each, Refinement) else None for each in calls[0]])
    way = install.build(request, residual)
    watch(way)
    internals.keep_dynamo_out(way)
    return Way(frame, shape, way, link)


def without_dynamo(called: Any) -> Callable[..., Any]:
    """What runs when a transformed frame calls something: the graph, or what records it, without the
    `disable` around it, which changes nothing where Dynamo's callback is not set; or a function of
    torch's own that Dynamo leaves alone.

    Raises:
        SpecializationError: it is none of them.
    """
    if internals.is_frame_helper(called):
        return inspect.unwrap(called)
    graph = generic_of(undisabled(called))
    if graph is called and not internals.is_helper_of_torch(called):
        name = getattr(called, "__qualname__", type(called).__qualname__)
        raise SpecializationError(f"its frame calls {name}")
    return graph  # type: ignore[no-any-return]
