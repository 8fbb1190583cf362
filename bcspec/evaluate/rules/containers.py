"""Virtual containers: building, reading and changing them; iteration over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Op
from ...knowledge import Refinement
from ..collections import (
    dict_object,
    dict_pairs,
    holds,
    is_key,
    iterable_items,
    iteration_source,
    known_length,
    subscript,
)
from ..domain import PARTS, AVal, Const, Entry, Ref, Tmp, VObj, is_atomic
from ..iteration import begin_iteration
from ..machine import refinement
from ..unfold import sequence_items
from .registry import load_part, residual, residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def give_virtual(ev: Evaluator, op: Op, obj: VObj) -> None:
    ev.give(op, Entry(ev.new_ref(obj)))


@rule("build_tuple build_list")
def build_sequence(ev: Evaluator, op: Op) -> None:
    """The items stay on the stack until something other than the next operation wants them."""
    if ev.state.top.source.groups and not op.operands:
        residual(ev, op)
        return
    ev.take(op)
    kids = []
    for entry in ev.grab():
        if entry.temp is not None and not isinstance(entry.aval, Tmp):
            ev.emit("drop", None, (entry.temp,))
        kids.append(entry.aval)
    kind = "tuple" if op.name == "build_tuple" else "list"
    give_virtual(ev, op, VObj(kind, None, tuple(kids)))


@rule("build_map")
def build_map(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    hand = ev.state.hand
    if not all(is_key(entry.aval) for entry in hand[::2]):
        residual_hand(ev, op, (dict,))
        return
    entries = ev.grab()
    values = [None] * (len(entries) // 2)
    for position in reversed(range(len(entries))):
        if position % 2:
            values[position // 2] = ev.to_slot(entries[position], "value")  # type: ignore[call-overload]
        else:
            ev.discard(entries[position])
    keys = [entry.aval.obj for entry in entries[::2]]  # type: ignore[attr-defined]
    give_virtual(ev, op, dict_object(keys, values))


@rule("build_const_key_map")
def build_const_key_map(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    entries = ev.state.hand
    keys = entries[-1].aval
    if not isinstance(keys, Const) or not all(is_key(Const(key)) for key in keys.obj):
        residual_hand(ev, op, (dict,))
        return
    grabbed = ev.grab()
    ev.discard(grabbed.pop())
    values = [ev.to_slot(entry, "value") for entry in reversed(grabbed)][::-1]
    give_virtual(ev, op, dict_object(keys.obj, values))


@rule("build_slice")
def build_slice(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    kids = [ev.to_slot(entry, "slice") for entry in reversed(ev.grab())][::-1]
    if len(kids) == 2:
        kids.append(Const(None))
    if all(isinstance(kid, Const) for kid in kids):
        value = slice(*(kid.obj for kid in kids))  # type: ignore[attr-defined]
        ev.give(op, Entry(Const(value)))
    else:
        give_virtual(ev, op, VObj("slice", None, tuple(kids)))


# -- growing -------------------------------------------------------------------------


def change_list(ev: Evaluator, op: Op, new: list[AVal]) -> None:
    """Add to the list that an operation like LIST_APPEND keeps on the stack."""
    ref = ev.state.top.env[op.operands[0]].aval
    assert isinstance(ref, Ref)
    obj = ev.state.heap[ref.id]
    ev.state.heap[ref.id] = obj.with_kids((*obj.kids, *new))


@rule("list_append")
def list_append(ev: Evaluator, op: Op) -> None:
    target = ev.object(ev.state.top.env[op.operands[0]].aval, "list")
    if target is None:
        residual(ev, op)
        return
    ev.take(op)
    (entry,) = ev.grab()
    value = ev.to_slot(entry, "item")
    if not holds(ev, value, ev.state.top.env[op.operands[0]].aval):
        change_list(ev, op, [value])
        return
    ev.state.hand.append(Entry(value))
    residual_hand(ev, op)


@rule("list_extend")
def list_extend(ev: Evaluator, op: Op) -> None:
    target = ev.object(ev.state.top.env[op.operands[0]].aval, "list")
    items = iterable_items(ev, ev.state.top.env[op.operands[1]].aval)
    if target is None or items is None:
        residual(ev, op)
        return
    ev.take(op)
    change_list(ev, op, items)
    ev.discard_hand()


@rule("list_to_tuple")
def list_to_tuple(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    obj = ev.object(ev.state.hand[0].aval, "list")
    if obj is None:
        residual_hand(ev, op, (tuple,))
        return
    ev.grab()
    give_virtual(ev, op, VObj("tuple", None, obj.kids))
    ev.collect()


@rule("map_add")
def map_add(ev: Evaluator, op: Op) -> None:
    env = ev.state.top.env
    target = ev.object(env[op.operands[0]].aval, "dict")
    if target is None or not is_key(env[op.operands[1]].aval):
        residual(ev, op)
        return
    ev.take(op)
    key, value = ev.grab()
    new = ev.to_slot(value, "value")
    ev.discard(key)
    update_dict(ev, env[op.operands[0]].aval, [(key.aval.obj, new)])  # type: ignore[attr-defined]


def update_dict(ev: Evaluator, ref: AVal, pairs: list[tuple[Any, AVal]]) -> None:
    assert isinstance(ref, Ref)
    obj = ev.state.heap[ref.id]
    keys = [hold.obj for hold in obj.tag] + [key for key, _ in pairs]
    values = [*obj.kids, *(value for _, value in pairs)]
    ev.state.heap[ref.id] = dict_object(keys, values)
    ev.collect()


@rule("dict_update dict_merge")
def dict_update(ev: Evaluator, op: Op) -> None:
    env = ev.state.top.env
    container = env[op.operands[op.spec.keeps - 1]].aval
    target = ev.object(container, "dict")
    pairs = dict_pairs(ev, env[op.operands[-1]].aval)
    clash = (
        target is not None
        and pairs is not None
        and op.name == "dict_merge"
        and (
            {hold.obj for hold in target.tag} & {key for key, _ in pairs}
            or not all(type(key) is str for key, _ in pairs)
        )
    )
    if target is None or pairs is None or clash:
        for value in op.operands[: op.spec.keeps]:
            ev.make_physical(ev.state.top, value)
        residual(ev, op)
        return
    ev.take(op)
    update_dict(ev, container, pairs)
    ev.discard_hand()


# -- reading -------------------------------------------------------------------------


@rule("binary_subscr")
def binary_subscr(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    container, key = (entry.aval for entry in ev.state.hand)
    item = subscript(ev, container, key)
    if item is None:
        load_part(ev, op, item_type(ev, container, key))
        return
    ev.discard_hand_keeping(item)
    if isinstance(item, Const) and not item.deep:
        ev.give(op, ev.const_entry(item.obj))
    else:
        ev.give(op, Entry(item))
    ev.collect()


def item_type(ev: Evaluator, container: AVal, key: AVal) -> Refinement | None:
    """What is known of an item of an unknown container."""
    known = refinement(container)
    if known is None or PARTS not in ev.state.holding:
        return None
    return known.items.get(key.obj) if isinstance(key, Const) and is_atomic(key.obj) else None


@rule("store_subscr")
def store_subscr(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    value, container, key = ev.state.hand
    obj = ev.object(container.aval, "dict", "list")
    known = isinstance(key.aval, Const) and is_atomic(key.aval.obj)
    if obj is None or not known or holds(ev, value.aval, container.aval):
        residual_hand(ev, op)
        return
    index = key.aval.obj  # type: ignore[attr-defined]
    if obj.kind == "list" and not (type(index) is int and -len(obj.kids) <= index < len(obj.kids)):
        residual_hand(ev, op)
        return
    entries = ev.grab()
    for entry in reversed(entries[1:]):
        ev.discard(entry)
    new = ev.to_slot(entries[0], "value")
    if obj.kind == "dict":
        update_dict(ev, container.aval, [(index, new)])
    else:
        kids = list(obj.kids)
        kids[index] = new
        assert isinstance(container.aval, Ref)
        ev.state.heap[container.aval.id] = obj.with_kids(tuple(kids))
        ev.collect()


@rule("unpack_sequence")
def unpack_sequence(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    items = sequence_items(ev, ev.state.hand[0].aval)
    if items is None or len(items) != op.arg:
        residual_hand(ev, op)
        return
    ev.discard_hand_keeping(*items)
    ev.give(op, *map(Entry, reversed(items)))
    ev.collect()


@rule("unpack_ex")
def unpack_ex(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    items = sequence_items(ev, ev.state.hand[0].aval)
    before, after = op.arg
    if items is None or len(items) < before + after:
        residual_hand(ev, op)
        return
    ev.discard_hand_keeping(*items)
    middle = ev.new_ref(VObj("list", None, tuple(items[before : len(items) - after])))
    spread = [*items[:before], middle, *items[len(items) - after :]]
    ev.give(op, *map(Entry, reversed(spread)))
    ev.collect()


@rule("get_len")
def get_len(ev: Evaluator, op: Op) -> None:
    size = known_length(ev, ev.state.top.env[op.operands[0]].aval)
    if size is None:
        residual(ev, op)
    else:
        ev.give(op, ev.const_entry(size))


# -- iteration -----------------------------------------------------------------------


@rule("get_iter")
def get_iter(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    aval = ev.state.hand[0].aval
    source = iteration_source(ev, aval) if ev.request.demands.unroll else None
    if source is not None:
        ev.discard_hand_keeping(source)
        give_virtual(ev, op, VObj("iterator", 0, (source,)))
        ev.collect()
        return
    obj = ev.object(aval, "gencall", "generator", "iterator")
    if obj is None:
        residual_hand(ev, op)
        return
    assert isinstance(aval, Ref)
    if obj.kind == "gencall":
        begin_iteration(ev, aval)
    ev.grab()
    ev.give(op, Entry(aval))
