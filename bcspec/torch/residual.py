"""From a function of torch's chain to its residual function."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

from .. import install
from ..api import watch
from ..evaluate import Request, evaluate
from ..knowledge import Knowledge, Refinement


def specialise(
    generic: FunctionType,
    count: int,
    types: dict[str, type],
    knowledge: Knowledge,
    facts: Sequence[Refinement | None] = (),
) -> FunctionType:
    """Specialise a function for what torch knows, and for the number of arguments it is called with.

    Args:
        generic: the function.
        count: how many positional arguments it is always called with.
        types: exact types of parameters.
        knowledge: what is known about its graph.
        facts: what is known of its last arguments, None for nothing.

    Raises:
        BcspecError: it cannot be specialised; names the reason.
    """
    code = generic.__code__
    lengths = {}
    if code.co_flags & 0x04:
        star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        lengths[star] = count - code.co_argcount
    names = [f"{star}.{number}" for star, length in lengths.items() for number in range(length)]
    about = {name: fact for name, fact in zip(names, facts) if fact is not None}
    request = Request(generic, types={**types, **about}, lengths=lengths, knowledge=knowledge)
    function = install.build(request, evaluate(request))
    watch(function)
    return function
