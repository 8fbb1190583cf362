"""Truth of abstract values, where no user code can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .domain import AVal, Const, Ref, is_atomic
from .machine import known_type

if TYPE_CHECKING:
    from .evaluator import Evaluator

#: Kinds of virtual objects that are true when they have items.
_SIZED = {"tuple", "list", "dict"}


def truth_of(ev: Evaluator, aval: AVal) -> bool | None:
    """``bool(aval)`` if it is known without running user code, else None."""
    if isinstance(aval, Const):
        return const_truth(aval)
    if isinstance(aval, Ref):
        obj = ev.state.heap[aval.id]
        if obj.kind in _SIZED:
            return bool(obj.kids)
        if obj.kind == "instance":
            return True if always_true(obj.tag[0].obj) else None
        return True if obj.kind != "class" else None
    exact = known_type(aval)
    return True if exact is not None and always_true(exact) else None


def const_truth(aval: Const) -> bool | None:
    obj = aval.obj
    kind = type(obj)
    if is_atomic(obj) or kind in (tuple, frozenset, range):
        return bool(obj)
    if kind in (list, dict, set):
        return bool(obj) if aval.deep else None
    return True if always_true(kind) else None


def always_true(kind: type) -> bool:
    """Whether instances of `kind` have neither `__bool__` nor `__len__`."""
    return not any("__bool__" in vars(base) or "__len__" in vars(base) for base in kind.__mro__)
