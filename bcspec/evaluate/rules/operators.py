"""Operators on constants, identity tests, string formatting."""

from __future__ import annotations

import operator
from dataclasses import replace
from types import UnionType
from typing import TYPE_CHECKING, Any

from ...ir import Op
from ..domain import AVal, Const, Dyn, Entry, Ref, Tmp, TypeFact, VObj, is_atomic
from ..machine import known_type, never_none
from ..truth import truth_of
from ..unfold import sequence_items
from .registry import residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator

#: In-place forms act alike on the immutable operands that are folded.
BINARY = {
    "+": operator.add, "&": operator.and_, "//": operator.floordiv, "<<": operator.lshift,
    "@": operator.matmul, "*": operator.mul, "%": operator.mod, "|": operator.or_,
    "**": operator.pow, ">>": operator.rshift, "-": operator.sub, "/": operator.truediv,
    "^": operator.xor,
}  # fmt: skip

COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

UNARY = {
    "unary_negative": operator.neg,
    "unary_positive": operator.pos,
    "unary_invert": operator.invert,
}

_NUMBERS = (int, bool, float)
_TEXT = (str, bytes, tuple)
_LARGEST = 1 << 128


def fold(function: Any, *operands: AVal) -> Const | None:
    """Apply an operator to constants of builtin types, if that can neither fail nor explode."""
    values = []
    for operand in operands:
        if not isinstance(operand, Const) or not is_atomic(operand.obj):
            return None
        values.append(operand.obj)
    if not moderate(function, values):
        return None
    try:
        result = function(*values)
    except Exception:  # it fails at run time, too: the operation stays in its place
        return None
    return Const(result) if is_atomic(result) else None


def moderate(function: Any, values: list[Any]) -> bool:
    if function in (operator.pow, operator.lshift, operator.mul):
        numbers = [abs(v) for v in values if isinstance(v, _NUMBERS)]
        sized = [len(v) for v in values if isinstance(v, _TEXT)]
        if sized:
            return all(n <= 4096 for n in numbers) and all(n <= 4096 for n in sized)
        return all(n <= _LARGEST for n in numbers) and (
            function is operator.mul or numbers[-1] <= 128
        )
    return True


def give_folded(ev: Evaluator, op: Op, result: Const) -> None:
    ev.note_folded(op.arg if isinstance(op.arg, str) else op.name, result)
    ev.discard_hand()
    ev.give(op, ev.const_entry(result.obj))


@rule("binary_op")
def binary_op(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    left, right = (entry.aval for entry in ev.state.hand)
    result = fold(BINARY[op.arg.removesuffix("=")], left, right)
    if result is None and op.arg == "|":
        result = union_of_classes(left, right)
    if result is not None:
        give_folded(ev, op, result)
    elif not concatenate(ev, op, left, right):
        residual_hand(ev, op)


def union_of_classes(left: AVal, right: AVal) -> Const | None:
    """``A | None`` and the like, as in annotations of nested functions."""
    if not isinstance(left, Const) or not isinstance(right, Const):
        return None
    if left.obj is right.obj is None or not (
        is_alternative(left.obj) and is_alternative(right.obj)
    ):
        return None
    return Const(left.obj | right.obj)


def is_alternative(obj: Any) -> bool:
    """Whether `obj` may stand in a union, and no metaclass has a say in it."""
    if isinstance(obj, type):
        return type(obj).__or__ is type.__or__ and type(obj).__ror__ is type.__ror__
    return obj is None or type(obj) is UnionType


def concatenate(ev: Evaluator, op: Op, left: AVal, right: AVal) -> bool:
    """``+`` on known sequences of the same type gives a virtual one."""
    if op.arg not in ("+", "+="):
        return False
    for type_ in (tuple, list):
        first, second = typed_items(ev, left, type_), typed_items(ev, right, type_)
        in_place = op.arg == "+=" and type_ is list
        if first is not None and second is not None and not in_place:
            ev.discard_hand_keeping(*first, *second)
            kids = (*first, *second)
            ev.give(op, Entry(ev.new_ref(VObj(type_.__name__, None, kids))))
            ev.collect()
            return True
    return False


def typed_items(ev: Evaluator, aval: AVal, type_: type) -> list[AVal] | None:
    if isinstance(aval, Const):
        return sequence_items(ev, aval) if type(aval.obj) is type_ else None
    if isinstance(aval, Ref) and ev.state.heap[aval.id].kind == type_.__name__:
        return sequence_items(ev, aval)
    return None


@rule("unary_negative unary_positive unary_invert")
def unary(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    result = fold(UNARY[op.name], ev.state.hand[0].aval)
    if result is not None:
        give_folded(ev, op, result)
    else:
        residual_hand(ev, op)


@rule("unary_not")
def unary_not(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    truth = truth_of(ev, ev.state.hand[0].aval)
    if truth is not None:
        give_folded(ev, op, Const(not truth))
    else:
        residual_hand(ev, op, (bool,))


@rule("compare_op")
def compare_op(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    left, right = (entry.aval for entry in ev.state.hand)
    result = fold(COMPARE[op.arg], left, right) or compared_by_identity(op.arg, left, right)
    if result is not None:
        give_folded(ev, op, result)
    else:
        residual_hand(ev, op)


def compared_by_identity(comparison: str, left: AVal, right: AVal) -> Const | None:
    """``==`` and ``!=`` on objects whose classes do not define them (functions, classes)."""
    if (
        comparison not in ("==", "!=")
        or not isinstance(left, Const)
        or not isinstance(right, Const)
    ):
        return None
    for obj in (left.obj, right.obj):
        if type(obj).__eq__ is not object.__eq__ or type(obj).__ne__ is not object.__ne__:
            return None
    return Const((left.obj is right.obj) == (comparison == "=="))


@rule("is_op")
def is_op(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    left, right = (entry.aval for entry in ev.state.hand)
    same = identical(ev, left, right)
    if same is not None:
        give_folded(ev, op, Const(same != bool(op.arg)))
        return
    fact = type_test(ev, left, right) or type_test(ev, right, left)
    residual_hand(ev, op, (bool,))
    if fact is not None:
        result = ev.value_of(ev.state.top.env[op.results[0]])
        ev.type_facts[result] = replace(fact, holds=not op.arg)


def type_test(ev: Evaluator, left: AVal, right: AVal) -> TypeFact | None:
    """What ``type(x) is cls`` tells about a variable `x`."""
    fact = ev.type_facts.get(left.value) if isinstance(left, Tmp) else None
    if fact is None or fact.cls is not None or not isinstance(right, Const):
        return None
    return replace(fact, cls=right.obj) if keeps_instances(ev, right.obj) else None


def keeps_instances(ev: Evaluator, obj: Any) -> bool:
    """Whether `obj` is a class whose instances cannot be given another class, or never are."""
    if not isinstance(obj, type):
        return False
    return not obj.__flags__ & _HEAP_TYPE or obj in ev.request.knowledge.keeps_instances


_HEAP_TYPE = 1 << 9


def identical(ev: Evaluator, left: AVal, right: AVal) -> bool | None:
    """``left is right``, where it does not depend on how constants are stored."""
    for one, two in ((left, right), (right, left)):
        if isinstance(one, Ref):
            return identical_virtual(ev, one, two)
        if isinstance(one, Const) and one.obj is None and never_none(two):
            return False
    if isinstance(left, Dyn) and isinstance(right, Dyn) and left.slot == right.slot:
        return True
    if isinstance(left, Const) and isinstance(right, Const):
        return identical_constants(left.obj, right.obj)
    for one, two in ((left, right), (right, left)):
        exact = known_type(two)
        if isinstance(one, Const) and exact is not None and exact is not type(one.obj):
            return False
    return None


def identical_virtual(ev: Evaluator, virtual: Ref, other: AVal) -> bool | None:
    """Whether `other` is the virtual object `virtual`, too."""
    kind = ev.state.heap[virtual.id].kind
    if isinstance(other, Ref):
        return True if other.id == virtual.id else None if kind == "class" else False
    if kind == "class" and isinstance(other, Const):
        return False if not isinstance(other.obj, type) else None
    if isinstance(other, Const) or kind == "exception":
        return False
    return False if known_type(other) in (bool, type(None)) else None


def identical_constants(left: Any, right: Any) -> bool | None:
    if left is right:
        return True
    if type(left) is type(right) and is_atomic(left):
        # Equal numbers and strings may be one object or two: the interpreter decides.
        return False if left != right else None
    return False


@rule("contains_op")
def contains_op(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    item, container = (entry.aval for entry in ev.state.hand)
    found = contained(ev, item, container)
    if found is not None:
        give_folded(ev, op, Const(found != bool(op.arg)))
    else:
        residual_hand(ev, op, (bool,))


def contained(ev: Evaluator, item: AVal, container: AVal) -> bool | None:
    """``item in container`` for a known item among known items of builtin types."""
    if not isinstance(item, Const) or not is_atomic(item.obj):
        return None
    if isinstance(container, Const):
        kind = type(container.obj)
        if is_atomic(container.obj) and kind in (str, bytes, tuple, frozenset):
            result = fold(lambda i, c: i in c, item, container)
            return None if result is None else bool(result.obj)
        if (
            container.deep
            and kind in (list, dict, set, tuple)
            and all(map(is_atomic, container.obj))
        ):
            return item.obj in container.obj
        return None
    obj = ev.object(container, "tuple", "list", "dict")
    if obj is None:
        return None
    if obj.kind == "dict":
        return any(key.obj == item.obj for key in obj.tag)
    kids = obj.kids
    if all(isinstance(kid, Const) and is_atomic(kid.obj) for kid in kids):
        return any(kid.obj is item.obj or kid.obj == item.obj for kid in kids)  # type: ignore[attr-defined]
    return None


@rule("format_value")
def format_value(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    hand = ev.state.hand
    value = hand[0].aval
    convert = {0: None, 1: str, 2: repr, 3: ascii}[op.arg & 3]
    if (
        op.arg & 4
        or not isinstance(value, Const)
        or type(value.obj) not in (int, str, bool, type(None))
    ):
        residual_hand(ev, op)
        return
    text = format(convert(value.obj) if convert else value.obj)
    give_folded(ev, op, Const(text))


@rule("build_string")
def build_string(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    result = fold(lambda *parts: "".join(parts), *(entry.aval for entry in ev.state.hand))
    if result is not None:
        give_folded(ev, op, result)
    else:
        residual_hand(ev, op, (str,))
