"""Pure functions of values that are known: `len`, `bool`, `range`, `min`, `str` and the like."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from ...ir import Op
from ..collections import known_length
from ..domain import Const, Entry, is_atomic
from ..truth import truth_of
from .registry import called, give, give_entry, on

if TYPE_CHECKING:
    from ..evaluator import Evaluator


@on(bool)
def bool_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    truth = truth_of(ev, args[0].aval)
    return truth is not None and give(ev, op, Const(truth))


@on(id, hash)
def never(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return False


@on(len)
def len_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    size = known_length(ev, args[0].aval)
    return size is not None and give(ev, op, Const(size))


@on(range)
def range_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    values = [
        e.aval.obj for e in args if isinstance(e.aval, Const) and type(e.aval.obj) in (int, bool)
    ]
    if keywords or len(values) != len(args) or not 1 <= len(args) <= 3 or values[2:] == [0]:
        return False
    return give(ev, op, Const(range(*values)))


@on(slice)
def slice_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    values = [e.aval.obj for e in args if isinstance(e.aval, Const)]
    if keywords or len(values) != len(args) or not 1 <= len(args) <= 3:
        return False
    return give(ev, op, Const(slice(*values)))


@on(min, max, abs, int, float, str, ord, chr, round, divmod, repr)
def atomic(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """Pure functions of atomic constants."""
    values = [e.aval.obj for e in args if isinstance(e.aval, Const) and is_atomic(e.aval.obj)]
    if keywords or len(values) != len(args):
        return False
    try:
        result = called(ev)(*values)
    except Exception:  # it fails at run time, too: the call stays in its place
        return False
    return is_atomic(result) and give(ev, op, Const(result))


@on(typing.cast)
def cast(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return len(args) == 2 and not keywords and give_entry(ev, op, args[1])
