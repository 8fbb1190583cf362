"""From a function of torch's chain to its residual function."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..evaluate import Request, evaluate
from ..knowledge import Knowledge
from ..lower import lower
from ..verify import verify


def specialise(
    generic: FunctionType, args: tuple[Any, ...], types: dict[str, type], knowledge: Knowledge
) -> FunctionType:
    """Specialise a function for what torch knows, and for the number of arguments it is called with.

    Args:
        generic: the function.
        args: positional arguments of the call at hand; a graph is always called with as many.
        types: exact types of parameters.
        knowledge: what is known about its graph.

    Raises:
        BcspecError: it cannot be specialised; names the reason.
    """
    code = generic.__code__
    lengths = {}
    if code.co_flags & 0x04:
        star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        lengths[star] = len(args) - code.co_argcount
    request = Request(generic, types=types, lengths=lengths, knowledge=knowledge)
    residual = evaluate(request)
    new_code = lower(residual.fn)
    verify(new_code)
    function = FunctionType(
        new_code, generic.__globals__, generic.__name__, generic.__defaults__, residual.cells
    )
    function.__kwdefaults__ = generic.__kwdefaults__
    function.__qualname__ = generic.__qualname__
    function.__module__ = generic.__module__
    function.__doc__ = generic.__doc__
    function.__dict__.update(generic.__dict__)
    function.__bcspec_generic__ = generic  # type: ignore[attr-defined]
    return function
