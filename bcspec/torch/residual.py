"""From a function of torch's chain to its residual function."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from .. import install
from ..api import watch
from ..evaluate import Request, evaluate
from ..knowledge import Knowledge


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
    function = install.build(request, evaluate(request))
    watch(function)
    return function
