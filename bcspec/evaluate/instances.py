"""Instantiation of plain Python classes as virtual instances."""

from __future__ import annotations

import builtins
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from ..ir import Op
from .attributes import static_lookup
from .domain import Const, Entry, Hold, Ref, VObj
from .unfold import callee_of, can_unfold, unfold

if TYPE_CHECKING:
    from .evaluator import Evaluator

_DEFAULTS = {
    "__setattr__": object.__setattr__,
    "__delattr__": object.__delattr__,
    "__getattribute__": object.__getattribute__,
}


def is_plain(cls: type) -> bool:
    """Whether making an instance and setting its attributes runs no hidden code but `__new__`."""
    if type(cls).__call__ is not type.__call__ or cls.__flags__ & (1 << 20):  # abstract
        return False
    if any(getattr(cls, name) is not default for name, default in _DEFAULTS.items()):
        return False
    if any("__del__" in vars(base) or "__getattr__" in vars(base) for base in cls.__mro__):
        return False
    # Only classes made by a class statement: their instances are a dictionary and slots.
    return all(base is object or base.__flags__ & (1 << 9) for base in cls.__mro__)


def instantiate(
    ev: Evaluator, op: Op, cls: type, args: list[Entry], kwargs: dict[str, Entry]
) -> bool:
    """Make a virtual instance and unfold `__init__`.  False: nothing has been changed."""
    if not ev.request.assume or not is_plain(cls) or cls in ev.request.knowledge.no_unfold:
        return False
    new = static_lookup(cls, "__new__")
    if isinstance(new, staticmethod) and isinstance(new.__func__, FunctionType):
        return unfold_new(ev, cls, new.__func__, args, kwargs)
    if new is not object.__new__:
        return False
    init = static_lookup(cls, "__init__")
    if isinstance(init, FunctionType):
        blank = Entry(blank_instance(ev, cls))
        if not initialise(ev, init, blank, args, kwargs):
            ev.collect_refs()
            return False
        return True
    if init is not object.__init__ or args or kwargs:
        return False
    ev.discard_hand()
    ev.give(op, Entry(blank_instance(ev, cls)))
    return True


def blank_instance(ev: Evaluator, cls: type) -> Ref:
    return ev.new_ref(VObj("instance", (Hold(cls), ()), ()))


def initialise(
    ev: Evaluator, init: FunctionType, instance: Entry, args: list[Entry], kwargs: dict[str, Entry]
) -> bool:
    """Unfold `__init__`; the call gives the instance."""
    callee = callee_of(ev, Const(init))
    assert callee is not None
    binding = can_unfold(ev, callee, [instance, *args], kwargs)
    if binding is None:
        return False
    drop_others(ev, [*args, *kwargs.values()])
    unfold(ev, callee, binding, "held", (instance.aval,))
    return True


def unfold_new(
    ev: Evaluator, cls: type, new: FunctionType, args: list[Entry], kwargs: dict[str, Entry]
) -> bool:
    """Unfold a `__new__` written in Python, where nothing is left for `__init__` to do."""
    if static_lookup(cls, "__init__") is not object.__init__:
        return False
    callee = callee_of(ev, Const(new))
    assert callee is not None
    binding = can_unfold(ev, callee, [Entry(Const(cls)), *args], kwargs)
    if binding is None:
        return False
    drop_others(ev, [*args, *kwargs.values()])
    unfold(ev, callee, binding)
    return True


def drop_others(ev: Evaluator, used: list[Entry]) -> None:
    """Empty the hand; entries that are not arguments are let go of."""
    kept = {id(entry) for entry in used}
    for entry in reversed(ev.grab()):
        if id(entry) not in kept:
            ev.discard(entry)


#: Exception classes whose `__new__` may give an instance of another class.
_UNSTEADY = (OSError, BaseExceptionGroup)


def makes_exactly(cls: type) -> bool:
    """Whether calling an exception class gives an instance of exactly that class."""
    plain = issubclass(cls, BaseException) and type(cls) is type
    return plain and not issubclass(cls, _UNSTEADY) and cls.__new__ in _BUILTIN_NEWS


_BUILTIN_NEWS = {
    cls.__new__
    for cls in vars(builtins).values()
    if isinstance(cls, type) and issubclass(cls, BaseException)
}


def can_delete(cls: type, name: str) -> bool:
    """Whether deleting `name` of a plain instance just takes the value away."""
    raw: Any = static_lookup(cls, name)
    return isinstance(raw, MemberDescriptorType) or not hasattr(type(raw), "__delete__")


def can_set(cls: type, name: str) -> bool:
    """Whether setting `name` on a plain instance just stores the value."""
    raw: Any = static_lookup(cls, name)
    return isinstance(raw, MemberDescriptorType) or not hasattr(type(raw), "__set__")
