"""Classes and attributes: `isinstance`, `type`, `getattr`, `super`, `object.__new__` and the like."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING

from ...ir import Op
from ..attributes import Bound, Getter, find_attribute, frozen_reason, plain_lookup
from ..domain import NULL, UNBOUND, AVal, Const, Dyn, Entry, Ref, Tmp, TypeFact, VObj, is_atomic
from ..instances import blank_instance, is_plain
from ..rules.registry import residual_hand
from ..unfold import sequence_items
from .registry import called, give, give_entry, on, virtual_class

if TYPE_CHECKING:
    from ..evaluator import Evaluator


@on(isinstance)
def isinstance_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 2 or keywords:
        return False
    cls = virtual_class(ev, args[0].aval)
    targets = classes_in(ev, args[1].aval)
    if cls is None or targets is None:
        return False
    if isinstance(args[0].aval, Const) and args[0].aval.obj.__class__ is not cls:
        return False
    return give(ev, op, Const(any(target in cls.__mro__ for target in targets)))


def classes_in(ev: Evaluator, aval: AVal) -> list[type] | None:
    """The classes of an `isinstance` target, if none of them decides for itself."""
    if isinstance(aval, Const) and isinstance(aval.obj, type):
        decides = type(aval.obj).__instancecheck__ is not type.__instancecheck__
        return None if decides else [aval.obj]
    items = sequence_items(ev, aval)
    if items is None and isinstance(aval, Const) and isinstance(aval.obj, types.UnionType):
        items = [Const(arg) for arg in typing.get_args(aval.obj)]
    if items is None:
        return None
    found: list[type] = []
    for item in items:
        below = classes_in(ev, item)
        if below is None:
            return None
        found += below
    return found


@on(issubclass)
def issubclass_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 2 or keywords or not isinstance(args[0].aval, Const):
        return False
    targets = classes_in(ev, args[1].aval)
    cls = args[0].aval.obj
    if targets is None or not isinstance(cls, type):
        return False
    if any(type(target).__subclasscheck__ is not type.__subclasscheck__ for target in targets):
        return False
    return give(ev, op, Const(any(target in cls.__mro__ for target in targets)))


@on(type)
def type_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    aval = args[0].aval
    cls = virtual_class(ev, aval)
    if cls is not None:
        return give(ev, op, Const(cls))
    if op.name != "call" or not isinstance(aval, Dyn) or aval.maybe:
        return False
    residual_hand(ev, op)
    ev.type_facts[ev.value_of(ev.state.top.env[op.results[0]])] = TypeFact(aval.slot)
    return True


@on(callable)
def callable_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    cls = virtual_class(ev, args[0].aval)
    return cls is not None and give(ev, op, Const(any("__call__" in vars(b) for b in cls.__mro__)))


@on(getattr, hasattr)
def getattr_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) not in (2, 3) or keywords or not isinstance(args[1].aval, Const):
        return False
    name = args[1].aval.obj
    if type(name) is not str:
        return False
    function = called(ev)
    found = find_attribute(ev, args[0].aval, name)
    if function is hasattr:
        if found is not None and not isinstance(found, Getter):
            return give(ev, op, Const(True))
        return surely_lacks(ev, args[0].aval, name) and give(ev, op, Const(False))
    if found is None or isinstance(found, Getter):
        if len(args) == 3 and surely_lacks(ev, args[0].aval, name):
            return give_entry(ev, op, args[2])
        return False
    if isinstance(found, Bound):
        self_ = args[0]
        if isinstance(self_.aval, Tmp):
            return False
        found = ev.new_ref(VObj("method", None, (Const(found.function), self_.aval)))
    return give(ev, op, found)


def surely_lacks(ev: Evaluator, aval: AVal, name: str) -> bool:
    """Whether a frozen object has no such attribute."""
    if (
        not isinstance(aval, Const)
        or not plain_lookup(type(aval.obj))
        or isinstance(aval.obj, type)
    ):
        return False
    if any("__getattr__" in vars(base) for base in type(aval.obj).__mro__):
        return False
    frozen = is_atomic(aval.obj) or frozen_reason(ev, aval, name) is not None
    return frozen and not hasattr(aval.obj, name)


@on(super)
def super_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """`super()` in a method whose class is known, and `super(cls, obj)`."""
    if keywords or len(args) not in (0, 2):
        return False
    start, instance = (args[0].aval, args[1].aval) if args else super_arguments(ev)
    proxy = super_object(ev, start, instance)
    if proxy is not None:
        return give(ev, op, proxy)
    if args:
        return False
    # Without arguments `super` looks at the frame, which has to be that of the source.
    ev.discard_hand_keeping(instance)
    ev.state.hand += [Entry(NULL), Entry(Const(super)), Entry(start), Entry(instance)]
    ev.realise_hand()
    (value,) = ev.emit_raising("call", (), [], 1)
    ev.give(op, Entry(Tmp(value), value))
    ev.collect()
    return True


def super_arguments(ev: Evaluator) -> tuple[AVal, AVal]:
    """What `super` without arguments takes from the frame."""
    frame = ev.state.top
    cell = frame.cells.get("__class__")
    name = (*frame.source.fn.arg_names, "")[0]
    instance = frame.locals.get(name, UNBOUND)
    own = ev.object(frame.cells[name], "cell") if name in frame.cells else None
    if own is not None:
        (instance,) = own.kids
    unknown = instance is UNBOUND or (isinstance(instance, Dyn) and instance.maybe)
    if unknown or not isinstance(cell, Const):
        raise ev.generic_from_here("it calls `super` without arguments that are known")
    return Const(cell.obj.cell_contents), instance


def super_object(ev: Evaluator, start: AVal, instance: AVal) -> Ref | None:
    """The virtual ``super(start, instance)``, where its class is known."""
    if not isinstance(start, Const) or isinstance(instance, Tmp):
        return None
    cls = virtual_class(ev, instance)
    if isinstance(instance, Const) and isinstance(instance.obj, type):
        cls = instance.obj
    if cls is None or start.obj not in cls.__mro__:
        return None
    return ev.new_ref(VObj("super", None, (start, instance)))


@on(object.__new__)
def object_new(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """The last step of a `__new__` written in Python."""
    cls = args[0].aval.obj if len(args) == 1 and isinstance(args[0].aval, Const) else None
    if keywords or not isinstance(cls, type) or not is_plain(cls):
        return False
    return give(ev, op, blank_instance(ev, cls))


@on(object.__init__)
def object_init(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return len(args) == 1 and not keywords and give(ev, op, Const(None))
