"""What is known of the outcome of a call: of one that need not be made, and after one that is."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

from ..ir import Op
from ..knowledge import FIRST, Established
from .builtins import give
from .domain import UNBOUND, AVal, Const, Entry, Holding, Tmp, VObj
from .instances import makes_exactly
from .machine import known_of, refinement

if TYPE_CHECKING:
    from .evaluator import Evaluator

#: Callables that can be looked up in a table without running user code.
HASHABLE = (FunctionType, BuiltinFunctionType, MethodDescriptorType, type)


# -- calls that are not made -----------------------------------------------------------


def as_it_was(ev: Evaluator, op: Op, function: Any, args: list[Entry]) -> bool:
    """Leave out reading a known state of the thread, and setting it to what it is."""
    for ambient in ev.request.knowledge.ambient:
        if ambient not in ev.state.holding:
            continue
        if function is ambient.read and not args:
            return give(ev, op, Const(ambient.value))
        if function is ambient.set and len(args) == 1:
            aval = args[0].aval
            if isinstance(aval, Const) and aval.obj is ambient.value:
                return give(ev, op, Const(None))
    return False


def was_established(ev: Evaluator, op: Op, function: Any, args: list[Entry]) -> bool:
    """Leave out a call whose outcome is known: see `Established`."""
    others = [entry.aval.obj for entry in args[1:] if isinstance(entry.aval, Const)]
    if len(others) < len(args) - 1:
        return False
    group = ev.object(args[0].aval, "tuple")
    kids = group.kids if group is not None else []
    fact = None if group is not None else established(args[0].aval, function, False, *others)
    for place, kid in enumerate(kids):
        fact = established(kid, function, True, place, len(kids), *others)
        if fact is None:
            return False
    if fact is None:
        return False
    if fact.gives is not FIRST:
        return give(ev, op, Const(fact.gives))
    give_operand(ev, op, args[0])
    return True


def established(aval: AVal, function: Any, grouped: bool, *others: Any) -> Established | None:
    """The fact about an object that makes a call with it needless."""
    known = refinement(aval)
    for fact in known.established if known is not None else ():
        if fact.function is function and fact.grouped is grouped and fact.holds(*others):
            return fact
    return None


def give_operand(ev: Evaluator, op: Op, kept: Entry) -> None:
    """Replace the call by one of its operands."""
    aval: AVal = UNBOUND
    for entry in reversed(ev.grab()):
        if entry is kept:
            aval = ev.to_slot(entry, "item")
        else:
            ev.discard(entry)
    ev.give(op, Entry(aval))
    ev.collect()


# -- calls that are made ---------------------------------------------------------------


def record_call(
    ev: Evaluator, function: AVal, args: list[Entry], keywords: dict[str, Entry]
) -> None:
    """Note what is known of the arguments of a call that stays."""
    if isinstance(function, Const) and not keywords:
        ev.calls.append((function.obj, [known_of(entry.aval) for entry in args]))


def result_type(ev: Evaluator, function: AVal) -> type | None:
    """The exact type of what a known callable returns, if that is declared, or an exception."""
    if not isinstance(function, Const) or not isinstance(function.obj, HASHABLE):
        return None
    if isinstance(function.obj, type) and makes_exactly(function.obj):
        return function.obj
    return ev.request.knowledge.result_types.get(function.obj)


def kept_by(ev: Evaluator, function: AVal) -> Holding:
    """The states of the thread that a call certainly leaves as they are."""
    every: Holding = frozenset(ev.request.knowledge.ambient)
    if not every or not isinstance(function, Const):
        return frozenset()
    called = function.obj
    for ambient in ev.request.knowledge.ambient:
        if called is ambient.read or called is ambient.set:
            return every if called is ambient.read else every - {ambient}
    undisturbing = isinstance(called, HASHABLE) and called in ev.request.knowledge.undisturbing
    return every if undisturbing else frozenset()


def note_outcome(ev: Evaluator, op: Op, function: AVal) -> None:
    """After a call that stayed: is its result the verdict of `Request.check`; take it apart if its
    length is declared."""
    result = ev.state.top.env[op.results[0]]
    if not isinstance(function, Const) or not isinstance(result.aval, Tmp):
        return
    check = ev.request.check
    if check is not None and type(function.obj) is type(check) and function.obj == check:
        ev.state.verdict = result.aval.value
    lengths = ev.request.knowledge.result_lengths
    if lengths and isinstance(function.obj, HASHABLE) and function.obj in lengths:
        unpack_result(ev, op, result.aval, lengths[function.obj])


def unpack_result(ev: Evaluator, op: Op, result: Tmp, length: int) -> None:
    """Put the items of a tuple that was made for the caller alone into slots."""
    values = ev.emit("unpack_sequence", length, (result.value,), length)
    items = [ev.to_slot(Entry(Tmp(value), value), "item") for value in reversed(values)]
    ev.state.top.env[op.results[0]] = Entry(ev.new_ref(VObj("tuple", None, tuple(items))))
