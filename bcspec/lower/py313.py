"""What CPython 3.13 changes in the instructions of 3.12; `bcspec.lift.py313` tells it all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import Compare

from ..errors import UnsupportedBytecode
from ..ir.ops import CLOSURE, FUNCTION_PARTS
from ..lift.py313 import SET_TYPEPARAM_DEFAULT
from . import py312
from .py312 import (
    CHECKED_LOAD,
    COMPARISONS,
    EXTRA_STACK,
    FORWARD_ONLY,
    LAST_LOCAL_DIES_FIRST,
    LINES_ABOVE,
    NOT_TAKEN,
    STOP_ITERATION,
    prologue,
)
from .rules import simple, variable_of

if TYPE_CHECKING:
    from ..ir import Op, Value
    from .common import Emission

__all__ = [
    "CHECKED_LOAD",
    "COMPARISONS",
    "EMIT",
    "EXTRA_STACK",
    "FORWARD_ONLY",
    "LANDINGS",
    "LAST_LOCAL_DIES_FIRST",
    "LINES_ABOVE",
    "NOT_TAKEN",
    "NULL_AFTER",
    "SIGNAL_AT_TARGET",
    "STOP_ITERATION",
    "UNWINDS_BEFORE",
    "prologue",
    "tests_safely",
]

#: A signal is noticed at the jump itself.
SIGNAL_AT_TARGET = False

#: NULL comes after the callable.
NULL_AFTER = True

#: CPython 3.13, ``Python/ceval.c``: unwinding goes on at the caller's `instr_ptr`, minus one.
UNWINDS_BEFORE = frozenset(
    "CALL CALL_KW CALL_FUNCTION_EX LOAD_ATTR BINARY_SUBSCR FOR_ITER SEND".split()
)

LANDINGS = {"for_iter": ("END_FOR", "POP_TOP"), "send": ("END_SEND",)}

#: Operations that give an exact bool.
_BOOLS = frozenset(
    "is_op contains_op unary_not to_bool check_exc_match match_mapping match_sequence".split()
)

_CAST = 16


# -- callables ----------------------------------------------------------------------------------


def _null(em: Emission, op: Op) -> None:
    """The NULL of a callable that is yet to come waits for it; any other is pushed here."""
    callable_ = em.callables.get(op.results[0])
    if callable_ is not None and callable_ not in em.stack and _comes(em, callable_):
        em.waiting[callable_] = op.results[0]
    elif em.following().name == "load_global" and callable_ is None:
        em.waiting[em.following().results[0]] = op.results[0]
    else:
        em.instr("PUSH_NULL")
        em.consume(op)


def _comes(em: Emission, value: Value) -> bool:
    return any(value in op.results for op in em.block.ops[em.index :])


def _load_global(em: Emission, op: Op) -> None:
    em.instr("LOAD_GLOBAL", (op.results[0] in em.waiting, op.arg))
    em.consume(op)


def callable_first(em: Emission, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The operands of a call as they stand on the stack."""
    if operands[0] in em.nulls:
        return (operands[1], operands[0], *operands[2:])
    return operands


def _call(em: Emission, op: Op) -> None:
    em.arrange(callable_first(em, op.operands))
    count = len(op.operands) - 2
    if op.arg:
        em.instr("LOAD_CONST", op.arg)
        em.max_depth = max(em.max_depth, len(em.stack) + 1)
        em.instr("CALL_KW", count)
    else:
        em.instr("CALL", count)
    em.consume(op)


def _call_ex(em: Emission, op: Op) -> None:
    em.arrange(callable_first(em, op.operands))
    em.instr("CALL_FUNCTION_EX", op.arg)
    em.consume(op)


def push_early(em: Emission, callable_: Value) -> None:
    """Push the NULL that the block makes for `callable_` only later."""
    for op in em.block.ops[em.index :]:
        if op in em.done:
            continue
        if op.name == "null" and em.callables.get(op.results[0]) is callable_:
            em.instr("PUSH_NULL")
            em.consume(op)
            em.done.add(op)


def _dict_merge(em: Emission, op: Op) -> None:
    """The callable, whose NULL stands above it, is looked at for its name."""
    callable_, args, keywords, update = op.operands
    push_early(em, callable_)
    null = next((n for n, c in em.callables.items() if c is callable_ and n in em.stack), None)
    if null is None:
        place = em.stack.index(callable_) + 1
        null = em.stack[place] if place < len(em.stack) else None
    if null not in em.nulls:
        raise UnsupportedBytecode("keywords are merged for a callable without its NULL")
    em.arrange((callable_, null, args, keywords, update))
    em.instr("DICT_MERGE", 1)
    em.consume(op)


def _make_function(em: Emission, op: Op) -> None:
    """MAKE_FUNCTION, then one instruction for each attribute, the topmost operand first."""
    em.arrange(op.operands)
    em.instr("MAKE_FUNCTION")
    for bit in (CLOSURE, *reversed(FUNCTION_PARTS)):
        if op.arg & bit:
            em.instr("SET_FUNCTION_ATTRIBUTE", bit)
    em.consume(op)


# -- truth and text ---------------------------------------------------------------------------


def _tested(em: Emission, value: Value) -> bool:
    """Whether the operation that follows takes nothing but the truth of `value`."""
    op = em.following()
    branches = op.name == "branch" and op.arg in ("true", "false")
    return (branches or op.name == "unary_not") and op.operands == (value,)


def _is_bool(em: Emission, value: Value) -> bool:
    """Whether `value`, which the next instruction takes, is a bool as the last one left it."""
    last = em.block.ops[em.index - 1] if em.index else None
    if last is None:
        return _comes_as_bool(em, value)
    return last.results == (value,) and (last.name in _BOOLS or last.name == "compare_op")


def _comes_as_bool(em: Emission, value: Value) -> bool:
    """The same for a value that comes from the block before.

    The compiler ends a region between the test and the jump, which cannot raise.
    """
    ways = em.preds[em.block]
    if len(ways) != 1 or em.block in em.handled or value not in em.block.params:
        return False
    (before,) = ways
    if before.term is None or before.term.name != "jump" or not before.ops:
        return False
    passed = before.edges[0].args[em.block.params.index(value)]
    return before.ops[-1].results == (passed,) and before.ops[-1].name in _BOOLS


def tests_safely(em: Emission, op: Op) -> bool:
    """Whether `op` branches on a bool that the block before has made."""
    return (
        op.name == "branch" and op.arg in ("true", "false") and _comes_as_bool(em, op.operands[0])
    )


def _compare(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    comparison = COMPARISONS[op.arg]
    if _tested(em, op.results[0]):
        comparison = Compare(int(comparison) | _CAST)
    em.instr("COMPARE_OP", comparison)
    em.consume(op)


def _unary_not(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    if not _is_bool(em, op.operands[0]):
        em.instr("TO_BOOL")
    em.instr("UNARY_NOT")
    em.consume(op)


def _branch(em: Emission, op: Op) -> None:
    (test,) = op.operands
    if op.arg in ("true", "false") and not _is_bool(em, test):
        em.settle((*em.block.edges[0].args, test))
        em.instr("TO_BOOL")
    py312.EMIT["branch"](em, op)


def _format_value(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    if op.arg & 4 and op.arg & 3:
        raise UnsupportedBytecode("a conversion after the format is known")
    if op.arg & 3:
        em.instr("CONVERT_VALUE", op.arg & 3)
    em.instr("FORMAT_WITH_SPEC" if op.arg & 4 else "FORMAT_SIMPLE")
    em.consume(op)


EMIT: dict[str, Any] = {
    **py312.EMIT,
    "null": _null,
    "load_global": _load_global,
    "load_closure": simple("LOAD_FAST", variable_of),
    "call": _call,
    "call_ex": _call_ex,
    "dict_merge": _dict_merge,
    "make_function": _make_function,
    "to_bool": simple("TO_BOOL"),
    "compare_op": _compare,
    "unary_not": _unary_not,
    "branch": _branch,
    "convert_value": simple("CONVERT_VALUE", lambda em, op: op.arg),
    "format_value": _format_value,
    "set_typeparam_default": simple("CALL_INTRINSIC_2", lambda em, op: SET_TYPEPARAM_DEFAULT),
}
