"""What CPython 3.13 changes in the instructions of 3.12.

Source of the effects: the interpreter loop of 3.13 (``Python/bytecodes.c``).  The NULL of a callable
comes after it; conditional jumps compare with True and False by identity.
"""

from __future__ import annotations

from . import actions as a
from . import kinds as k
from . import py312
from .model import Effect, Flow, Operand, Spec, Table
from .specs import NOTHING, OBJECT, bounded, fixed, group, makes, peeks

_CALLABLE = k.OBJECT | k.ITERATES
_SELF_OR_NULL = k.OBJECT | k.NULLS
_FUNCTION = k.FUNCTION | k.ITERATES

#: What SET_FUNCTION_ATTRIBUTE trusts, by its argument.
_ATTRIBUTES = {
    1: (k.TUPLES, _FUNCTION),
    2: (k.DICT, _FUNCTION),
    4: (k.TUPLE, _FUNCTION),
    8: (k.CELLS, k.UNCLOSED),
}


def _load_global(arg: int) -> Effect:
    return Effect(None, 0, (k.VALUE, k.NULL) if arg & 1 else (k.VALUE,))


def _load_attr(arg: int) -> Effect:
    return Effect(None, 1, (k.VALUE, k.MAYBE) if arg & 1 else (k.VALUE,))


def _load_super_attr(arg: int) -> Effect:
    return Effect(None, 3, (k.VALUE, k.MAYBE) if arg & 1 else (k.VALUE,))


def _call(count: int) -> Effect:
    return Effect((_CALLABLE, k.ANY, *(OBJECT,) * count), count + 2)


def _call_kw(count: int) -> Effect:
    return Effect((_CALLABLE, k.ANY, *(OBJECT,) * count, k.TUPLES), count + 3)


def _call_ex(flags: int) -> Effect:
    """The slot over the callable goes without being released."""
    return Effect((OBJECT, k.NULL, *(OBJECT,) * (1 + flags)), 3 + flags, (k.VALUE,))


def _dict_merge(depth: int) -> Effect:
    """The callable, a NULL and the arguments are below the dict; the callable is named in errors."""
    return Effect((OBJECT, k.ANY, k.ANY, k.DICT, *(k.ANY,) * (depth - 1), OBJECT), 1)


def set_function_attribute(flag: int) -> Effect:
    return Effect(_ATTRIBUTES.get(flag, (0, 0)), 2)


_GONE = ("KW_NAMES", "LOAD_CLOSURE", "FORMAT_VALUE")

_VARIABLES = {
    # Closures are loaded this way, too.
    "LOAD_FAST": Spec(NOTHING, Operand.SLOT, raises=False, action=a.load_fast),
    "LOAD_FAST_LOAD_FAST": Spec(
        NOTHING, raises=False, action=a.two_slots(a.push_slot, a.push_slot)
    ),
    "STORE_FAST_LOAD_FAST": Spec(
        Effect((_SELF_OR_NULL,), 1),
        raises=False,
        action=a.two_slots(a.store_fast_maybe_null, a.push_slot),
    ),
    "STORE_FAST_STORE_FAST": Spec(
        Effect((_SELF_OR_NULL, _SELF_OR_NULL), 2),
        raises=False,
        action=a.two_slots(a.store_fast_maybe_null, a.store_fast_maybe_null),
    ),
    "LOAD_GLOBAL": Spec(_load_global, Operand.NAME_SHIFTED),
    "LOAD_ATTR": Spec(_load_attr, Operand.NAME_SHIFTED),
    "LOAD_SUPER_ATTR": Spec(_load_super_attr, Operand.NAME_SHIFTED_TWICE),
}

_OPERATIONS = {
    "COMPARE_OP": Spec(Effect(None, 2), **bounded(6 << 5), action=a.compare_for_truth),
    **group("IS_OP CONTAINS_OP", makes(k.BOOL, 2, **bounded(2))),
    "TO_BOOL": makes(k.BOOL),
    **group("MATCH_MAPPING MATCH_SEQUENCE", peeks(OBJECT, pushes=(k.BOOL,), raises=False)),
    "CHECK_EXC_MATCH": peeks(k.EXC, OBJECT, pops=1, pushes=(k.BOOL,)),
    "UNARY_NOT": peeks(k.BOOL, pops=1, pushes=(k.BOOL,), raises=False),
    "CONVERT_VALUE": fixed(1, 1, **bounded(4, 1)),
    "FORMAT_SIMPLE": fixed(1, 1),
    "FORMAT_WITH_SPEC": fixed(2, 1),
    "CALL_INTRINSIC_2": Spec(py312.intrinsic_2, **bounded(6, 1)),
}

_CALLS = {
    "CALL": Spec(_call, Operand.COUNT, action=a.call_null_after),
    "CALL_KW": Spec(_call_kw, Operand.COUNT, action=a.call_kw, check=a.names_on_top),
    "CALL_FUNCTION_EX": Spec(_call_ex, **bounded(2)),
    "DICT_MERGE": Spec(_dict_merge, Operand.COUNT, 1),
    "MAKE_FUNCTION": Spec(Effect((k.CODE,), 1), action=a.make_bare_function),
    "SET_FUNCTION_ATTRIBUTE": Spec(
        set_function_attribute, **bounded(9, 1), raises=False, action=a.set_function_attribute
    ),
}

_CONTROL = {
    "RESUME": fixed(0, **bounded(8), check=a.resume),
    "YIELD_VALUE": Spec(
        Effect((OBJECT | k.WRAPPED,), 0), **bounded(2), action=a.yield_value, check=a.yields
    ),
    **group(
        "POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE",
        Spec(Effect((k.BOOL,), 1, (), 1), flow=Flow.BRANCH, raises=False),
    ),
    # Iterators that end skip END_FOR and POP_TOP.
    "FOR_ITER": py312.for_iter("END_FOR", "POP_TOP"),
    "END_FOR": fixed(1, raises=False),
}

TABLE = Table(
    version=(3, 13),
    specs={
        **{name: spec for name, spec in py312.TABLE.specs.items() if name not in _GONE},
        **_VARIABLES,
        **_OPERATIONS,
        **_CALLS,
        **_CONTROL,
    },
    prologue=py312.TABLE.prologue,
    only_prologue=py312.TABLE.only_prologue,
    unchecked=frozenset({"LOAD_FAST", "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST"}),
)
