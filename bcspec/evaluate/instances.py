"""Instantiation of plain Python classes as virtual instances."""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from ..ir import Op
from .attributes import static_lookup
from .domain import Const, Entry, Hold, VObj
from .unfold import callee_of, can_unfold, unfold

if TYPE_CHECKING:
    from .evaluator import Evaluator

_PLAIN = {
    "__new__": object.__new__,
    "__setattr__": object.__setattr__,
    "__delattr__": object.__delattr__,
    "__getattribute__": object.__getattribute__,
}


def is_plain(cls: type) -> bool:
    """Whether making an instance and setting its attributes runs no hidden code."""
    if type(cls).__call__ is not type.__call__ or cls.__flags__ & (1 << 20):  # abstract
        return False
    if any(static_lookup(cls, name) is not default for name, default in _PLAIN.items()):
        new = cls.__dict__.get("__new__")
        if new is not None or cls.__new__ is not object.__new__:
            return False
        if cls.__setattr__ is not object.__setattr__ or cls.__delattr__ is not object.__delattr__:
            return False
    if any("__del__" in vars(base) or "__getattr__" in vars(base) for base in cls.__mro__):
        return False
    return all(base is object or base.__flags__ & (1 << 9) for base in cls.__mro__) and not issubclass(
        cls, (BaseException, type, int, str, bytes, tuple, list, dict, set, frozenset, float)
    )


def instantiate(ev: Evaluator, op: Op, cls: type, args: list[Entry], kwargs: dict[str, Entry]) -> bool:
    """Make a virtual instance and unfold `__init__`.  False: nothing has been changed."""
    if not ev.request.assume or cls in ev.request.knowledge.no_unfold or not is_plain(cls):
        return False
    init = static_lookup(cls, "__init__")
    if isinstance(init, FunctionType):
        callee = callee_of(ev, Const(init))
        assert callee is not None
        blank = Entry(ev.new_ref(VObj("instance", (Hold(cls), ()), ())))
        binding = can_unfold(ev, callee, [blank, *args], kwargs)
        if binding is None:
            ev.collect_refs()
            return False
        drop_others(ev, [*args, *kwargs.values()])
        unfold(ev, callee, binding, "held", (blank.aval,))
        return True
    if init is not object.__init__ or args or kwargs:
        return False
    ev.discard_hand()
    ev.give(op, Entry(ev.new_ref(VObj("instance", (Hold(cls), ()), ()))))
    return True


def drop_others(ev: Evaluator, used: list[Entry]) -> None:
    """Empty the hand; entries that are not arguments are let go of."""
    kept = {id(entry) for entry in used}
    for entry in reversed(ev.grab()):
        if id(entry) not in kept:
            ev.discard(entry)


def can_set(cls: type, name: str) -> bool:
    """Whether setting `name` on a plain instance just stores the value."""
    raw: Any = static_lookup(cls, name)
    return isinstance(raw, MemberDescriptorType) or not hasattr(type(raw), "__set__")
