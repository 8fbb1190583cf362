"""What CPython 3.12 changes in the instructions of 3.11.

Source of the effects: the interpreter loop of 3.12 (``Python/bytecodes.c``).  Locals are read
without a check, except by LOAD_FAST_CHECK.
"""

from __future__ import annotations

from . import actions as a
from . import kinds as k
from . import py311
from .model import Effect, Flow, Operand, Spec, Table
from .specs import NAME, NOTHING, OBJECT, bounded, fixed, group, makes, peeks

_STORED = k.OBJECT | k.NULLS


def _load_attr(arg: int) -> Effect:
    return Effect(None, 1, (k.MAYBE, k.VALUE) if arg & 1 else (k.VALUE,))


def _load_super_attr(arg: int) -> Effect:
    return Effect(None, 3, (k.MAYBE, k.VALUE) if arg & 1 else (k.VALUE,))


#: By number of the intrinsic function: what it trusts, and what it leaves.
_INTRINSICS_1 = {
    3: ((k.EXC,), k.EXC),  # StopIteration becomes RuntimeError
    4: ((OBJECT,), k.WRAPPED),
    6: ((k.LISTS,), k.TUPLE),
    11: ((k.TUPLES,), k.VALUE),  # name, parameters, value
}
_INTRINSICS_2 = {
    1: ((k.EXC, k.EXC_LIST), k.EXC_OR_NONE),
    4: ((k.FUNCTION, OBJECT), k.FUNCTION),
}


def intrinsic_1(number: int) -> Effect:
    reads, made = _INTRINSICS_1.get(number, ((OBJECT,), k.VALUE))
    return Effect(reads, 1, (made,))


def intrinsic_2(number: int) -> Effect:
    reads, made = _INTRINSICS_2.get(number, ((OBJECT, OBJECT), k.VALUE))
    return Effect(reads, 2, (made,))


def branch() -> Spec:
    return Spec(Effect((OBJECT,), 1, (), 1), flow=Flow.BRANCH)


def none_branch(when_none: bool) -> Spec:
    action = a.none_test(when_none)
    return Spec(Effect((OBJECT,), 1), flow=Flow.SPLIT, raises=False, action=action)


def for_iter(*landing: str) -> Spec:
    return Spec(
        Effect((k.ITER,), 0, (k.VALUE,), 0, (k.VALUE,)),
        flow=Flow.BRANCH,
        check=a.lands_on(*landing),
    )


_GONE = """
    PRECALL LOAD_METHOD LOAD_CLASSDEREF UNARY_POSITIVE LIST_TO_TUPLE ASYNC_GEN_WRAP IMPORT_STAR
    PREP_RERAISE_STAR PRINT_EXPR JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE
    POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_NONE POP_JUMP_BACKWARD_IF_NONE
    POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
""".split()

_VARIABLES = {
    "LOAD_FAST": Spec(NOTHING, Operand.SAVED, raises=False, action=a.load_fast),
    "LOAD_FAST_CHECK": Spec(NOTHING, Operand.SAVED, action=a.load_fast_check),
    "LOAD_FAST_AND_CLEAR": Spec(NOTHING, Operand.SAVED, raises=False, action=a.load_fast_and_clear),
    "STORE_FAST": Spec(
        Effect((_STORED | k.CELL,), 1),
        Operand.SAVED,
        raises=False,
        action=a.store_fast_maybe_null,
    ),
    "MAKE_CELL": Spec(NOTHING, Operand.DEREF, raises=False, action=a.make_cell),
    "LOAD_LOCALS": fixed(0, 1),
    "LOAD_FROM_DICT_OR_GLOBALS": fixed(1, 1, **NAME),
    "LOAD_FROM_DICT_OR_DEREF": Spec(
        Effect(None, 1), Operand.DEREF, action=a.load_from_dict_or_deref
    ),
}

_OPERATIONS = {
    "COMPARE_OP": fixed(2, 1, **bounded(6 << 4)),  # a mask for specialising in the low bits
    "LOAD_ATTR": Spec(_load_attr, Operand.NAME_SHIFTED),
    "LOAD_SUPER_ATTR": Spec(_load_super_attr, Operand.NAME_SHIFTED_TWICE),
    "BINARY_SLICE": fixed(3, 1),
    "STORE_SLICE": fixed(4),
    "CALL_INTRINSIC_1": Spec(intrinsic_1, check=a.async_gen_intrinsic, **bounded(12, 1)),
    "CALL_INTRINSIC_2": Spec(intrinsic_2, **bounded(5, 1)),
}

_CONTROL = {
    "RETURN_CONST": Spec(
        NOTHING, Operand.CONST, flow=Flow.STOP, raises=False, action=a.return_const
    ),
    # What is thrown in finds another value in the slot of the one that was yielded.
    "YIELD_VALUE": Spec(
        Effect((OBJECT | k.WRAPPED,), 0), action=a.yield_value, check=a.followed_by("RESUME")
    ),
    **group("POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE", branch()),
    "POP_JUMP_IF_NONE": none_branch(True),
    "POP_JUMP_IF_NOT_NONE": none_branch(False),
    # Iterators that end skip END_FOR; a generator that is run in place ends with a value there.
    "FOR_ITER": for_iter("END_FOR"),
    "END_FOR": fixed(2, raises=False),
    "SEND": Spec(
        Effect((OBJECT, OBJECT), 1, (k.VALUE,), 1, (k.VALUE,)),
        flow=Flow.BRANCH,
        check=a.lands_on("END_SEND"),
    ),
    "END_SEND": makes(k.VALUE, 2, raises=False),
    "CLEANUP_THROW": peeks(OBJECT, OBJECT | k.WRAPPED, k.EXC, pops=3, pushes=(k.VALUE, k.VALUE)),
}

TABLE = Table(
    version=(3, 12),
    specs={
        **{name: spec for name, spec in py311.TABLE.specs.items() if name not in _GONE},
        **_VARIABLES,
        **_OPERATIONS,
        **_CONTROL,
    },
    prologue=py311.TABLE.prologue,
    # A comprehension that was inlined makes its cells where it begins.
    only_prologue=py311.TABLE.only_prologue - {"MAKE_CELL"},
    unchecked=frozenset({"LOAD_FAST"}),
)
