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
from ..knowledge import Equivalent
from . import internals
from .chain import graph_knowledge, is_inductor_graph, reachable, undisabled
from .direct import Shape, Target, make_direct
from .frames import TransformedFrame, calls_of
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


def build(frame: TransformedFrame, check: Any, target: Target, shape: Shape) -> Way:
    """The direct way for one cache entry, with frame and graph unfolded.

    Args:
        frame: what Dynamo made of the user's function.
        check: the root of the entry's guards.
        target: what runs.
        shape: how the function is called.

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
    graphs = [inner[called] for called in calls if not internals.is_frame_helper(called)]
    parts = [part for graph in graphs for part in reachable(graph)]
    knowledge = graph_knowledge(parts)
    # Dynamo's callback is not set here: the entry has made sure of it.
    knowledge.equivalents.update({called: Equivalent(inner[called]) for called in calls})
    for each in target.modules:
        knowledge.volatile[id(each), "forward"] = "users replace it"
    module = function.__globals__.get("__name__", "")
    for name in frame.copy.co_names:
        if name.startswith(DYNAMO_NAMES):
            knowledge.stable_globals[module, name] = "Dynamo makes this name once"
    direct, link = make_direct(target, shape, body, check, not any(map(is_inductor_graph, parts)))
    assert isinstance(direct, FunctionType)
    request = Request(direct, lengths={"args": shape.count}, knowledge=knowledge)
    residual = install.build(request, evaluate(request))
    watch(residual)
    internals.keep_dynamo_out(residual)
    return Way(frame, shape, residual, link)


def without_dynamo(called: Any) -> Callable[..., Any]:
    """What runs when a transformed frame calls something: the graph, or what records it, without the
    `disable` around it, which changes nothing where Dynamo's callback is not set.

    Raises:
        SpecializationError: it is neither.
    """
    if internals.is_frame_helper(called):
        return inspect.unwrap(called)
    inner = generic_of(undisabled(called))
    if inner is called:
        name = getattr(called, "__qualname__", type(called).__qualname__)
        raise SpecializationError(f"its frame calls {name}")
    return inner  # type: ignore[no-any-return]
