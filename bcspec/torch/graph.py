"""Putting the specialised wrappers of one compiled graph in place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from ..install import record_of
from ..knowledge import Refinement
from . import internals
from .chain import is_compiled_function, reachable
from .settle import GENERIC, generic_of, settling, specialised
from .stats import counts

log = logging.getLogger("bcspec.torch")

#: Calls of a graph before its outermost wrapper is specialised on its own: most often the direct way,
#: which has it unfolded, is there by then, and it is called no more.
WRAPPER_SETTLED_AFTER = 3

#: What autograd's C code looks up on the autograd function of a graph at each call, or on the class of its
#: contexts, and the calls after which each is specialised.  `forward` is refined when the direct way is
#: built, most often before that.  `_backward_impl` comes before what runs it in another context.
FUNCTION_METHODS = {"forward": 2, "_backward_impl": 1}
CONTEXT_METHODS = {"apply_boxed": 2}


def prepare(compiled: Any) -> Any:
    """Make a compiled graph specialise itself once it has settled.

    Args:
        compiled: what an AOTAutograd backend returned: a `disable` wrapper around the function that
            AOTAutograd made.

    Returns:
        `compiled`; when it does not look as expected it stays generic, with one logged reason.
    """
    counts.graphs += 1
    try:
        _prepare(compiled)
    except Exception:
        # The graph runs without us; a surprise in torch's internals must not break a compile.
        log.exception("a compiled graph stays generic: unexpected error")
    return compiled


def _prepare(compiled: Any) -> None:
    wrapper = internals.DisableWrapper.of(compiled)
    if wrapper is None:
        log.warning("a compiled graph stays generic: %r is no disable wrapper", compiled)
        return
    generic = wrapper.function
    if not isinstance(generic, FunctionType):
        log.warning("a compiled graph stays generic: %r is no plain function", generic)
        return
    if hasattr(generic, GENERIC):
        return
    parts = reachable(generic)
    for cls in filter(is_compiled_function, parts):
        _prepare_autograd(cls)
    wrapper.function = settling(
        generic, lambda old, new: _replace(wrapper, old, new), after=WRAPPER_SETTLED_AFTER
    )


def _replace(wrapper: internals.DisableWrapper, old: Any, new: Any) -> None:
    """Put `new` where `old` is called from: in our wrapper, and in Dynamo's frames.

    A residual function needs no `disable` around it there: Dynamo is told to leave it alone.
    """
    wrapper.function = new
    residual = record_of(new) is not None
    if residual:
        internals.keep_dynamo_out(new, of_callees=True)
    for namespace, name, caller in internals.callers_of(old):
        caller.function = new
        if residual:
            namespace[name] = new


def refine(cls: type, facts: Sequence[Refinement | None]) -> None:
    """Specialise `forward` for what the guards of the only frame that runs a graph establish.

    Args:
        cls: the graph's autograd function.
        facts: about its inputs, in their order.
    """
    if any(facts):
        generic = generic_of(cls.forward)  # type: ignore[attr-defined]
        context = cls._backward_cls  # type: ignore[attr-defined]
        forward = specialised(generic, 1 + len(facts), {"ctx": context}, facts)
        cls.forward = staticmethod(forward)  # type: ignore[attr-defined]


def _prepare_autograd(cls: type) -> None:
    """Have the methods of a graph's autograd function settle."""
    context = cls._backward_cls  # type: ignore[attr-defined]

    def settle(owner: type, name: str, types: dict[str, type], after: int, kind: Any) -> None:
        def replace(_: Any, new: Any) -> None:
            setattr(owner, name, kind(new))

        replace(None, settling(getattr(owner, name), replace, types, after, root=cls))

    for name, after in FUNCTION_METHODS.items():
        settle(cls, name, {"ctx": context}, after, staticmethod)
    for name, after in CONTEXT_METHODS.items():
        settle(context, name, {"self": context}, after, lambda function: function)
