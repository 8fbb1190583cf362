"""Attributes, methods, calls and closures."""

from __future__ import annotations

import functools
from types import CodeType
from typing import TYPE_CHECKING, Any

from ...ir import Op
from ...ir.ops import CLOSURE, FUNCTION_PARTS
from ...knowledge import Refinement
from ..attributes import Bound, Getter, find_attribute
from ..builtins import BUILTINS, METHODS
from ..domain import (
    NULL,
    PARTS,
    UNBOUND,
    AVal,
    Const,
    Dyn,
    Entry,
    FunctionTag,
    Hold,
    Marker,
    Tmp,
    VObj,
)
from ..generator_calls import GENERATOR_CALLS
from ..generators import generator_refusal
from ..instances import instantiate
from ..machine import refinement
from ..outcomes import (
    as_it_was,
    kept_by,
    note_outcome,
    record_call,
    result_type,
    was_established,
)
from ..source import source_of
from ..unfold import callee_of, can_unfold, sequence_items, unfold
from .registry import load_part, residual, residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


# -- attributes ----------------------------------------------------------------------


@rule("load_attr")
def load_attr(ev: Evaluator, op: Op) -> None:
    entry = ev.state.top.env[op.operands[0]]
    found = find_attribute(ev, entry.aval, op.arg)
    if found is None:
        ev.take(op)
        load_part(ev, op, attribute_type(ev, entry.aval, op.arg))
    elif isinstance(found, Getter):
        ev.take(op)
        call_getter(ev, op, found)
    elif isinstance(found, Bound):
        ev.take(op)
        (entry,) = ev.grab()
        self_ = ev.to_slot(entry, "self")
        ev.give(op, Entry(ev.new_ref(VObj("method", None, (Const(found.function), self_)))))
    else:
        ev.take(op)
        ev.discard_hand_keeping(found)
        give_value(ev, op, found)
        ev.collect()


def attribute_type(ev: Evaluator, aval: AVal, name: str) -> type | Refinement | None:
    """The declared exact type of an attribute of a known object, or what else is known of it."""
    if isinstance(aval, Const):
        found = ev.request.knowledge.attribute_types.get((id(aval.obj), name))
        return found if PARTS in ev.state.holding or not isinstance(found, Refinement) else None
    known = refinement(aval)
    return known.attributes.get(name) if known is not None and PARTS in ev.state.holding else None


def give_value(ev: Evaluator, op: Op, value: AVal) -> None:
    if isinstance(value, Const) and not value.deep:
        ev.give(op, ev.const_entry(value.obj))
    else:
        ev.give(op, Entry(value))


def call_getter(ev: Evaluator, op: Op, getter: Getter) -> None:
    """Unfold a property, or leave the attribute access in place."""
    callee = callee_of(ev, Const(getter.function))
    assert callee is not None
    binding = can_unfold(ev, callee, list(ev.state.hand), {})
    if binding is None:
        residual_hand(ev, op)
        return
    ev.grab()
    unfold(ev, callee, binding)


@rule("load_method")
def load_method(ev: Evaluator, op: Op) -> None:
    entry = ev.state.top.env[op.operands[0]]
    found = find_attribute(ev, entry.aval, op.arg)
    if found is None or isinstance(found, Getter):
        residual(ev, op)
    elif isinstance(found, Bound):
        ev.take(op)
        (entry,) = ev.grab()
        ev.give(op, Entry(Const(found.function)), entry)
    else:
        ev.take(op)
        ev.discard_hand_keeping(found)
        ev.give(op, Entry(NULL), Entry(found))
        ev.collect()


# -- calls ---------------------------------------------------------------------------


@rule("call")
def call(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    hand = ev.state.hand
    first, second = hand[0], hand[1]
    if first.aval is NULL:
        function, args = second, hand[2:]
    elif second.aval is NULL:
        function, args = first, hand[2:]
    else:
        function, args = first, hand[1:]
    count = len(op.arg or ())
    positional = args[: len(args) - count]
    keywords = dict(zip(op.arg or (), args[len(args) - count :], strict=True))
    if not fold_call(ev, op, function, positional, keywords):
        called = function.aval
        record_call(ev, called, positional, keywords)
        residual_hand(ev, op, (result_type(ev, called),), keeps=kept_by(ev, called))
        note_outcome(ev, op, called)


def fold_call(
    ev: Evaluator, op: Op, function: Entry, args: list[Entry], keywords: dict[str, Entry]
) -> bool:
    """Evaluate a call whose operands are in the hand.  False: nothing has been changed."""
    aval = function.aval
    if isinstance(aval, (Tmp, Dyn, Marker)):
        return False
    if isinstance(aval, Const):
        if not keywords and as_it_was(ev, op, aval.obj, args):
            return True
        if args and not keywords and was_established(ev, op, aval.obj, args):
            return True
        special = builtin_rule(aval.obj)
        if special is not None:
            return ev.request.assume and of_builtin(ev, op, special, aval.obj, args, keywords)
        if type(aval.obj) is functools.partial:
            special = builtin_rule(aval.obj.func)
            if special is not None and ev.request.assume:
                lead = [Entry(Const(arg)) for arg in aval.obj.args]
                named = {name: Entry(Const(arg)) for name, arg in aval.obj.keywords.items()}
                every, called = [*lead, *args], aval.obj.func
                return of_builtin(ev, op, special, called, every, {**named, **keywords})
        if isinstance(aval.obj, type):
            return instantiate(ev, op, aval.obj, args, keywords)
    method = ev.object(aval, "method")
    if method is not None and isinstance(method.kids[0], Const):
        special = builtin_rule(method.kids[0].obj)
        if special is not None:
            every, called = [Entry(method.kids[1]), *args], method.kids[0].obj
            return of_builtin(ev, op, special, called, every, keywords)
    return open_call(ev, op, function, args, keywords)


def of_builtin(
    ev: Evaluator,
    op: Op,
    special: Any,
    function: Any,
    args: list[Entry],
    keywords: dict[str, Entry],
) -> bool:
    """Evaluate a call of a builtin by its rule; False leaves the call as it is."""
    done = bool(special(ev, op, args, keywords))
    result = ev.state.top.env.get(op.results[0]) if done else None
    if result is not None:
        ev.note_folded(function.__name__, result.aval)
    return done


#: By identity: looking a user's object up by value would run its `__hash__`.
_BUILTIN_RULES = {
    id(function): rule for function, rule in {**BUILTINS, **METHODS, **GENERATOR_CALLS}.items()
}


def builtin_rule(obj: Any) -> Any:
    return _BUILTIN_RULES.get(id(obj))


def open_call(
    ev: Evaluator, op: Op, function: Entry, args: list[Entry], keywords: dict[str, Entry]
) -> bool:
    """Unfold the call of a Python function, or make a virtual generator."""
    callee = callee_of(ev, function.aval)
    if callee is None:
        return False
    source = source_of(callee.code)
    if source.is_suspendable:
        return virtual_generator(ev, op, function, args, keywords)
    if not ev.worth_unfolding(callee, args, keywords):
        return False
    binding = can_unfold(ev, callee, args, keywords)
    if binding is None:
        return False
    used = {id(entry) for entry in (*args, *keywords.values())}
    for entry in reversed(ev.grab()):
        if id(entry) not in used:
            ev.discard(entry)
    unfold(ev, callee, binding)
    return True


def virtual_generator(
    ev: Evaluator, op: Op, function: Entry, args: list[Entry], keywords: dict[str, Entry]
) -> bool:
    """A call that makes a generator which nothing has looked at yet."""
    callee = callee_of(ev, function.aval)
    assert callee is not None
    why = generator_refusal(ev, source_of(callee.code))
    if why is not None:
        ev.note("declined", f"{callee.code.co_qualname}: {why}")
        return False
    if can_unfold(ev, callee, args, keywords) is None:
        return False
    entries = [function, *args, *keywords.values()]
    kept = {id(entry) for entry in entries}
    hand = ev.grab()
    placed: dict[int, AVal] = {}
    for entry in reversed(hand):
        if id(entry) in kept:
            placed[id(entry)] = ev.to_slot(entry, "gen")
        else:
            ev.discard(entry)
    # What was spread from a star argument is in no hand of its own: it stands in slots already.
    kids = tuple(placed.get(id(entry), entry.aval) for entry in entries)
    ev.give(op, Entry(ev.new_ref(VObj("gencall", tuple(keywords), kids))))
    return True


@rule("call_ex")
def call_ex(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    hand = ev.state.hand
    star = hand[2]
    items = sequence_items(ev, star.aval)
    table = ev.object(hand[3].aval, "dict") if op.arg else None
    plain = not op.arg or (table is not None and all(type(k.obj) is str for k in table.tag))
    if items is None or not plain:
        residual_hand(ev, op)
        return
    positional = [Entry(item) for item in items]
    keywords = (
        {k.obj: Entry(v) for k, v in zip(table.tag, table.kids, strict=True)} if table else {}
    )
    function = hand[1] if hand[0].aval is NULL else hand[0]
    if fold_call(ev, op, function, positional, keywords):
        return
    direct_call(ev, op, function, positional, keywords)


def direct_call(
    ev: Evaluator, op: Op, function: Entry, args: list[Entry], keywords: dict[str, Entry]
) -> None:
    """A residual call whose argument tuple is never built."""
    called = function.aval
    record_call(ev, called, args, keywords)
    hand = ev.grab()
    for entry in reversed(hand):
        if entry is not function:
            ev.discard(entry)
    ev.state.hand += [Entry(NULL), function, *args, *keywords.values()]
    ev.realise_hand()
    results = ev.emit_raising("call", tuple(keywords), [], 1, kept_by(ev, called))
    ev.give(op, Entry(Tmp(results[0], result_type(ev, called)), results[0]))
    ev.collect()
    note_outcome(ev, op, called)


# -- closures ------------------------------------------------------------------------


@rule("make_function")
def make_function(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    hand = ev.state.hand
    code = hand[-1].aval
    flags = op.arg
    cells: list[AVal] | None = []
    if flags & CLOSURE:
        cells = sequence_items(ev, hand[-2].aval)
    if cells is None or not (isinstance(code, Const) and isinstance(code.obj, CodeType)):
        residual_hand(ev, op)
        return
    entries = ev.grab()
    parts: list[AVal] = [UNBOUND for _ in FUNCTION_PARTS]
    optional = entries[: len(entries) - 1 - bool(flags & CLOSURE)]
    wanted = [position for position, bit in enumerate(FUNCTION_PARTS) if flags & bit]
    for entry, position in reversed(list(zip(optional, wanted, strict=True))):
        parts[position] = ev.to_slot(entry, "function")
    for entry in entries[len(optional) :]:
        if entry.temp is not None:
            ev.emit("drop", None, (entry.temp,))
    tag = FunctionTag(Hold(code.obj), Hold(ev.state.top.globals))
    ev.give(op, Entry(ev.new_ref(VObj("function", tag, (*parts, *cells)))))
