"""Dynamo's guards that are Python functions: specialised when they are made, since they run at each call."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from ..api import partial_eval
from ..knowledge import Knowledge
from . import internals
from .chain import stable_torch
from .frameless import without_frame
from .knowledge import lookers, torch_knowledge
from .stats import counts


def specialised_guard(guard: Any) -> Any:
    """A guard function without the calls that building the guard has decided.

    Args:
        guard: what is about to be added to a guard manager: a function of the guarded value.

    Returns:
        A callable that decides the same; `guard` itself where it cannot be specialised.
    """
    if not isinstance(guard, FunctionType):
        return guard
    with counts.timed():
        residual = partial_eval(guard, knowledge=helper_knowledge())
    if residual is not guard:
        counts.specialised["guard"] += 1
        internals.keep_dynamo_out(residual)
    return without_frame(residual, lookers())


@functools.cache
def helper_knowledge() -> Knowledge:
    """What is known to functions of torch that belong to no graph."""
    return torch_knowledge().merged(Knowledge(stable_modules=stable_torch()))
