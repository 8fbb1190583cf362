"""What is known about containers, constant or virtual: items, keys, lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .domain import AVal, Const, Hold, Ref, VObj, const_key, is_atomic
from .unfold import sequence_items

if TYPE_CHECKING:
    from .evaluator import Evaluator


def is_key(aval: AVal) -> bool:
    """Whether a dictionary key is known and hashing it runs no user code."""
    return isinstance(aval, Const) and is_atomic(aval.obj)


def dict_object(keys: Any, values: Any) -> VObj:
    """A virtual dict; of equal keys the first one and the last value stay."""
    table: dict[Any, tuple[Hold, AVal]] = {}
    for key, value in zip(keys, values, strict=True):
        first = table[key][0] if key in table else Hold(key)
        table[key] = (first, value)
    return VObj("dict", tuple(h for h, _ in table.values()), tuple(v for _, v in table.values()))


def holds(ev: Evaluator, value: AVal, container: AVal) -> bool:
    """Whether the virtual object `value` leads to `container`: no cycles in the heap."""
    work, seen = [value], set()
    while work:
        aval = work.pop()
        if isinstance(aval, Ref) and aval.id not in seen:
            if isinstance(container, Ref) and aval.id == container.id:
                return True
            seen.add(aval.id)
            work.extend(ev.state.heap[aval.id].kids)
    return False


def iterable_items(ev: Evaluator, aval: AVal) -> list[AVal] | None:
    """What iterating over a known container gives, if that changes nothing else."""
    if isinstance(aval, Const):
        kind = type(aval.obj)
        if kind in (tuple, range, str) or (kind in (list, dict) and aval.deep):
            return [Const(item, aval.deep) for item in aval.obj]
        return None
    obj = ev.object(aval, "tuple", "list", "dict")
    if obj is None:
        return None
    if obj.kind == "dict":
        return [Const(key.obj) for key in obj.tag]
    return list(obj.kids)


def dict_pairs(ev: Evaluator, aval: AVal) -> list[tuple[Any, AVal]] | None:
    """Keys and values of a known dictionary."""
    if isinstance(aval, Const):
        if type(aval.obj) is dict and (aval.deep or not aval.obj) and all(map(is_atomic, aval.obj)):
            return (
                [(key, Const(value, aval.deep)) for key, value in aval.obj.items()]
                if aval.deep
                else None
            )
        return None
    obj = ev.object(aval, "dict")
    if obj is None:
        return None
    return [(hold.obj, kid) for hold, kid in zip(obj.tag, obj.kids, strict=True)]


def subscript(ev: Evaluator, container: AVal, key: AVal) -> AVal | None:
    """``container[key]`` if both are known and it does not fail."""
    if not isinstance(key, Const):
        return None
    pairs = dict_pairs(ev, container)
    if pairs is not None and is_atomic(key.obj):
        found = [
            value
            for known, value in pairs
            if const_key(known) == const_key(key.obj) or known == key.obj
        ]
        return found[0] if found else None
    items = sequence_items(ev, container)
    if items is None:
        return None
    if type(key.obj) is int:
        return items[key.obj] if -len(items) <= key.obj < len(items) else None
    if type(key.obj) is slice and all(
        type(part) in (int, type(None)) for part in (key.obj.start, key.obj.stop, key.obj.step)
    ):
        return sliced(ev, container, items[key.obj])
    return None


def sliced(ev: Evaluator, container: AVal, items: list[AVal]) -> AVal:
    if isinstance(container, Const):
        kind = type(container.obj).__name__
    else:
        assert isinstance(container, Ref)
        kind = ev.state.heap[container.id].kind
    return ev.new_ref(VObj(kind, None, tuple(items)))


def known_length(ev: Evaluator, aval: AVal) -> int | None:
    if isinstance(aval, Const):
        kind = type(aval.obj)
        if kind in (tuple, str, bytes, range, frozenset) or (
            kind in (list, dict, set) and aval.deep
        ):
            return len(aval.obj)
        return None
    obj = ev.object(aval, "tuple", "list", "dict")
    return len(obj.kids) if obj is not None else None


def iteration_source(ev: Evaluator, aval: AVal) -> AVal | None:
    """The sequence that an iterator over `aval` steps through."""
    if isinstance(aval, Const):
        kind = type(aval.obj)
        if kind in (tuple, range) or (kind is list and aval.deep):
            return aval
        if kind is dict and aval.deep:
            return Const(tuple(aval.obj), deep=True)
        return None
    obj = ev.object(aval, "tuple", "list")
    return aval if obj is not None else None
