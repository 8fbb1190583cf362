"""Methods of virtual lists and dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Op
from ..collections import dict_pairs, holds, is_key, iterable_items, subscript
from ..domain import Const, Entry, Ref, VObj
from .registry import METHODS, give, give_entry, on

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def list_target(ev: Evaluator, args: list[Entry]) -> tuple[Ref, VObj] | None:
    obj = ev.object(args[0].aval, "list") if args else None
    return (args[0].aval, obj) if obj is not None else None  # type: ignore[return-value]


@on(list.append, table=METHODS)
def append(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 2 or keywords or holds(ev, args[1].aval, target[0]):
        return False
    ref, _ = target
    for entry in reversed(ev.grab()):
        if entry is args[1]:
            value = ev.to_slot(entry, "item")
        else:
            ev.discard(entry)
    obj = ev.state.heap[ref.id]
    ev.state.heap[ref.id] = obj.with_kids((*obj.kids, value))
    ev.give(op, ev.const_entry(None))
    return True


@on(list.extend, table=METHODS)
def extend(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    items = iterable_items(ev, args[1].aval) if len(args) == 2 else None
    if target is None or items is None or keywords:
        return False
    ref, obj = target
    ev.state.heap[ref.id] = obj.with_kids((*obj.kids, *items))
    return give(ev, op, Const(None))


@on(list.clear, table=METHODS)
def clear(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 1 or keywords:
        return False
    ref, obj = target
    ev.state.heap[ref.id] = obj.with_kids(())
    return give(ev, op, Const(None))


@on(list.pop, table=METHODS)
def pop(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    index: Any = args[1].aval.obj if len(args) == 2 and isinstance(args[1].aval, Const) else -1
    unknown = len(args) == 2 and not isinstance(args[1].aval, Const)
    if target is None or keywords or len(args) > 2 or unknown or type(index) is not int:
        return False
    ref, obj = target
    if not -len(obj.kids) <= index < len(obj.kids):
        return False
    kids = list(obj.kids)
    item = kids.pop(index)
    ev.state.heap[ref.id] = obj.with_kids(tuple(kids))
    return give(ev, op, item)


@on(list.copy, table=METHODS)
def copy(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 1 or keywords:
        return False
    return give(ev, op, ev.new_ref(VObj("list", None, target[1].kids)))


@on(dict.get, table=METHODS)
def get(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) not in (2, 3) or keywords or not is_key(args[1].aval):
        return False
    if dict_pairs(ev, args[0].aval) is None:
        return False
    found = subscript(ev, args[0].aval, args[1].aval)
    if found is not None:
        return give(ev, op, found)
    return give_entry(ev, op, args[2]) if len(args) == 3 else give(ev, op, Const(None))
