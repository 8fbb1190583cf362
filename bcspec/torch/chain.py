"""Finding what a compiled graph consists of by following structure, never by name or line."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any

from ..knowledge import EntryGuard, Equivalent, Knowledge
from . import internals
from .knowledge import STABLE_MODULES, generated_namespace, torch_knowledge

#: Objects looked at before the search gives up: a graph has a few dozen.
SEARCHED = 2000

_FIXED = "made for one graph, complete before its first call"


def reachable(root: Any) -> list[Any]:
    """The functions, callable objects, classes and descriptions that a compiled graph consists of.

    Args:
        root: the callable that AOTAutograd returned.
    """
    queue, seen = [root], {id(root): root}
    for obj in queue:
        for target in references(obj):
            if id(target) not in seen and len(seen) < SEARCHED:
                seen[id(target)] = target
                queue.append(target)
    return queue


def references(obj: Any) -> Iterator[Any]:
    """What an object of the chain leads to."""
    if isinstance(obj, FunctionType):
        yield from map(content, obj.__closure__ or ())
        if generated_namespace(obj.__globals__):
            yield from obj.__globals__.values()
    elif isinstance(obj, MethodType):
        yield obj.__self__
        yield obj.__func__
    elif isinstance(obj, BuiltinMethodType):
        yield obj.__self__
    elif isinstance(obj, functools.partial):
        yield obj.func
    elif isinstance(obj, staticmethod):
        yield obj.__func__
    elif isinstance(obj, (list, tuple)):
        yield from obj
    elif is_compiled_function(obj) or belongs_to_aot(type(obj)):
        yield from getattr(obj, "__dict__", {}).values()


def belongs_to_aot(cls: type) -> bool:
    """Whether AOTAutograd defines a class."""
    return cls.__module__.startswith("torch._functorch.")


def is_compiled_function(obj: Any) -> bool:
    """Whether `obj` is the autograd function that AOTAutograd makes for one graph."""
    return (
        isinstance(obj, type)
        and issubclass(obj, internals.autograd_function())
        and "compiled_fw" in vars(obj)
    )


def is_inductor_graph(obj: Any) -> bool:
    """Whether `obj` is a graph compiled by Inductor, whose generated code leaves everything in place."""
    return isinstance(obj, internals.inductor_graph())


def stable_torch() -> dict[str, str]:
    """Torch's modules whose definitions count as fixed, as far as they are imported, and why.

    These are the ones that users' programs read: a watched module is slower to read.  Torch's internal
    modules are watched.
    """
    names = [name for name in sys.modules if name == "torch" or name.startswith("torch.")]
    return dict.fromkeys(filter(is_public, names), STABLE_MODULES)


def is_public(module: str) -> bool:
    """Whether programs read a module of torch; its C modules count as such."""
    return module.startswith("torch._C") or "._" not in module


def rare_paths(cls: Any) -> Iterator[tuple[Any, str]]:
    """Functions of a compiled graph's class that its usual calls never reach."""
    double_backward = getattr(cls, "_double_backward", None)
    if double_backward is not None:
        yield double_backward, "makes a class at each call; only a double backward gets there"


def c_apply(cls: Any) -> Any:
    """The C method that `Function.apply` of an autograd function ends in."""
    return super(internals.autograd_function(), cls).apply  # type: ignore[misc]


@functools.cache
def dynamo_is_off() -> tuple[EntryGuard, ...]:
    """Where this is the case, `disable` around a function changes nothing."""
    eval_frame = internals.resolve("torch._C._dynamo.eval_frame")
    compiler = internals.resolve("torch.compiler")
    return (
        EntryGuard(
            eval_frame, "get_eval_frame_callback", None, "set per thread by Dynamo", call=True
        ),
        EntryGuard(compiler, "_is_exporting_flag", False, "set while a program is exported"),
    )


def undisabled(function: Any) -> Any:
    """What Dynamo's `disable` was put around, once or more."""
    while (wrapper := internals.DisableWrapper.of(function)) is not None:
        function = wrapper.function
    return function


def content(cell: CellType) -> Any:
    """What a cell holds, None if nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def graph_knowledge(parts: list[Any]) -> Knowledge:
    """What is known about one graph: the containers of its description and its class stay as they are.

    Args:
        parts: what it consists of.
    """
    known = Knowledge()
    known.stable_modules.update(stable_torch())
    for part in parts:
        if is_compiled_function(part):
            known.freeze(part, _FIXED)
            # C `apply` returns what `forward` returned: `finalize` ends with `tuple(...)` of so many.
            known.result_types[c_apply(part)] = tuple
            known.result_lengths[c_apply(part)] = part.metadata.num_forward_returns
            known.undisturbing[c_apply(part)] = "it puts back the modes in which it runs `forward`"
            known.no_unfold.update(dict(rare_paths(part)))
            known.class_attributes[part._backward_cls, "_forward_cls"] = _FIXED
        elif isinstance(part, (list, dict)):
            known.freeze(part, _FIXED)
        elif isinstance(part, FunctionType):
            inner = undisabled(part)
            if inner is not part:
                known.equivalents[part] = Equivalent(inner, dynamo_is_off())
        elif belongs_to_aot(type(part)):
            for value in getattr(part, "__dict__", {}).values():
                if isinstance(value, (list, dict)):
                    known.freeze(value, _FIXED)
    return torch_knowledge().merged(known)
