"""`with` statements on known classes, and attribute stores on virtual instances."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ...ir import Op
from ..attributes import static_lookup
from ..collections import holds
from ..domain import AVal, Caught, Const, Entry, Marker, Ref, Tmp, Trace, VObj
from ..instances import can_delete, can_set
from ..machine import known_type
from ..source import Source, source_of
from ..unfold import callee_of, can_unfold, unfold
from .registry import residual, residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def class_of(ev: Evaluator, aval: AVal) -> type | None:
    """The class of a value, virtual instances included."""
    if isinstance(aval, Ref):
        obj = ev.state.heap[aval.id]
        return obj.tag[0].obj if obj.kind == "instance" else None
    return known_type(aval)


@rule("before_with")
def before_with(ev: Evaluator, op: Op) -> None:
    """Look `__enter__` and `__exit__` up on the class, as the interpreter does, and unfold the first."""
    aval = ev.state.top.env[op.operands[0]].aval
    cls = class_of(ev, aval)
    enter = static_lookup(cls, "__enter__") if cls is not None else None
    exit_ = static_lookup(cls, "__exit__") if cls is not None else None
    known = isinstance(enter, types.FunctionType) and isinstance(exit_, types.FunctionType)
    if not known or not ev.request.assume or isinstance(aval, Tmp):
        residual(ev, op)
        return
    assert cls is not None
    ev.take(op)
    (entry,) = ev.state.hand
    callee = callee_of(ev, Const(enter))
    assert callee is not None
    binding = can_unfold(ev, callee, [entry], {})
    if binding is None:
        residual_hand(ev, op)
        return
    ev.assume("watched", cls, "__enter__", enter, "definitions in a class stay")
    ev.assume("watched", cls, "__exit__", exit_, "definitions in a class stay")
    ev.grab()
    manager = ev.to_slot(entry, "manager")
    method = ev.new_ref(VObj("method", None, (Const(exit_), manager)))
    unfold(ev, callee, binding, "enter", (method,))


@rule("load_special")
def load_special(ev: Evaluator, op: Op) -> None:
    """Look one of these methods up on the class, as the interpreter does."""
    aval = ev.state.top.env[op.operands[0]].aval
    cls = class_of(ev, aval)
    method = static_lookup(cls, op.arg) if cls is not None else None
    known = isinstance(method, types.FunctionType) and ev.request.assume
    if not known or isinstance(aval, Tmp):
        residual(ev, op)
        return
    assert cls is not None
    ev.assume("watched", cls, op.arg, method, "definitions in a class stay")
    ev.take(op)
    (entry,) = ev.grab()
    ev.give(op, Entry(Const(method)), entry)


@rule("with_except_start")
def with_except_start(ev: Evaluator, op: Op) -> None:
    """Call a known `__exit__` with the exception being handled."""
    exit_, *bound, _, _, exception = [ev.state.top.env[value].aval for value in op.operands]
    callee = callee_of(ev, exit_) if isinstance(exit_, (Const, Ref)) else None
    physical = any(isinstance(aval, (Tmp, Marker)) for aval in bound)
    if callee is None or physical or not isinstance(exception, Tmp):
        residual(ev, op)
        return
    callee.lead.extend(bound)
    if can_unfold(ev, callee, [Entry(Const(None))] * 3, {}) is None:
        residual(ev, op)
        return
    args = exception_arguments(ev, exception, source_of(callee.code))
    binding = can_unfold(ev, callee, [Entry(arg) for arg in args], {})
    assert binding is not None
    unfold(ev, callee, binding)


def exception_arguments(ev: Evaluator, exception: Tmp, source: Source) -> list[AVal]:
    """Class, instance and traceback of the exception on the stack, each in a slot.

    What `__exit__` never reads is not loaded.
    """
    if source.unread.issuperset(source.fn.arg_names[1:]):
        return [Const(None)] * 3
    (copy,) = ev.emit("copy", None, (exception.value,), 1)
    instance = ev.to_slot(Entry(Tmp(copy, Caught), copy), "exc")
    (loaded,) = ev.load(instance)
    (value,) = ev.emit("load_attr", "__traceback__", (loaded,), 1)
    trace = ev.to_slot(Entry(Tmp(value, Trace), value), "exc")
    return [ev.new_ref(VObj("class", None, (instance,))), instance, trace]


@rule("store_attr")
def store_attr(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    value, target = ev.state.hand
    obj = ev.object(target.aval, "instance")
    if obj is None or not can_set(obj.tag[0].obj, op.arg) or holds(ev, value.aval, target.aval):
        residual_hand(ev, op)
        return
    assert isinstance(target.aval, Ref)
    entries = ev.grab()
    new = ev.to_slot(entries[0], op.arg)
    set_virtual(ev, target.aval, op.arg, new)
    ev.collect()


@rule("delete_attr")
def delete_attr(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    (target,) = ev.state.hand
    obj = ev.object(target.aval, "instance")
    if obj is None or op.arg not in obj.tag[1] or not can_delete(obj.tag[0].obj, op.arg):
        residual_hand(ev, op)
        return
    assert isinstance(target.aval, Ref)
    cls, names = obj.tag
    table = dict(zip(names, obj.kids, strict=True))
    del table[op.arg]
    ev.state.heap[target.aval.id] = VObj("instance", (cls, tuple(table)), tuple(table.values()))
    ev.discard_hand()


def set_virtual(ev: Evaluator, ref: Ref, name: str, value: AVal) -> None:
    """Bind an attribute of a virtual instance."""
    obj = ev.state.heap[ref.id]
    cls, names = obj.tag
    table: dict[str, Any] = dict(zip(names, obj.kids, strict=True))
    table[name] = value
    ev.state.heap[ref.id] = VObj("instance", (cls, tuple(table)), tuple(table.values()))
