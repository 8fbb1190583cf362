"""What CPython 3.14 changes in the instructions of 3.13; `bcspec.lift.py314` tells it all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import BinaryOp, Label
from bytecode.instr import CommonConstant, SpecialMethod

from ..lift.py314 import COMMON_CONSTANTS, SPECIAL_METHODS, SUBSCRIPT
from . import py311, py313
from .py313 import (
    CHECKED_LOAD,
    COMPARISONS,
    EXTRA_STACK,
    FORWARD_ONLY,
    NULL_AFTER,
    SIGNAL_AT_TARGET,
    STOP_ITERATION,
    prologue,
    tests_safely,
)
from .rules import simple

if TYPE_CHECKING:
    from ..ir import Block, Op
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

#: As in 3.13, where subscription is an instruction of its own.
UNWINDS_BEFORE = py313.UNWINDS_BEFORE - {"BINARY_SUBSCR"} | {"BINARY_OP"}

#: Monitoring is told by it that a branch went on.
NOT_TAKEN = ("NOT_TAKEN",)

#: A loop over an asynchronous iterator branches by an exception: it goes on past END_SEND.
LANDINGS = {
    "for_iter": ("END_FOR", "POP_ITER"),
    "send": ("END_SEND",),
    "async_for": ("END_SEND", "NOT_TAKEN"),
}

#: CPython 3.14, ``Python/frame.c``: as the operand stack, so the locals.
LAST_LOCAL_DIES_FIRST = True

#: Monitoring counts from the first line in unsigned numbers.
LINES_ABOVE = False

#: The largest number that LOAD_SMALL_INT pushes.
_LARGEST_SMALL = 255


def _const(em: Emission, op: Op) -> None:
    if type(op.arg) is int and 0 <= op.arg <= _LARGEST_SMALL:
        em.instr("LOAD_SMALL_INT", op.arg)
        em.consume(op)
    else:
        py311.EMIT["const"](em, op)


def _common_constant(em: Emission, op: Op) -> None:
    name = op.arg or "AssertionError"
    em.instr("LOAD_COMMON_CONSTANT", CommonConstant(COMMON_CONSTANTS.index(name)))
    em.consume(op)


def _call_ex(em: Emission, op: Op) -> None:
    """CALL_FUNCTION_EX, with a NULL for keywords that are not there."""
    em.arrange(py313.callable_first(em, op.operands))
    if not op.arg:
        em.instr("PUSH_NULL")
        em.max_depth = max(em.max_depth, len(em.stack) + 1)
    em.instr("CALL_FUNCTION_EX")
    em.consume(op)


def _loop_end(block: Block) -> Block | None:
    """The block with the END_ASYNC_FOR that what is raised in `block` comes to first."""
    if block.handler is None:
        return None
    target = block.handler.target
    while not target.ops and len(target.edges) == 1:
        target = target.edges[0].target
    return target if any(op.name == "end_async_for" for op in target.ops) else None


def _send(em: Emission, op: Op) -> None:
    py311.send(em, op, "send" if _loop_end(em.block) is None else "async_for")


def _end_async_for(em: Emission, op: Op) -> None:
    """Its argument leads back to the END_SEND of the loop, for monitoring alone."""
    em.arrange(op.operands)
    em.instr("END_ASYNC_FOR", _branching_point(em))
    em.consume(op)


def _branching_point(em: Emission) -> Label:
    """The END_SEND of the loop that ends in this block; where there is none before, this place."""
    for block in em.fn.blocks:
        if block.term is None or block.term.name != "send" or _loop_end(block) is not em.block:
            continue
        landing, _ = em.landings.get(block.edges[1].target, {}).get("async_for", (None, None))
        if landing is not None and landing in em.code:
            return landing
    here = Label()
    em.code.append(here)
    return here


_GONE = ("before_with", "before_async_with", "build_const_key_map")

EMIT: dict[str, Any] = {
    **{name: rule for name, rule in py313.EMIT.items() if name not in _GONE},
    "const": _const,
    "load_assertion_error": _common_constant,
    "load_common_constant": _common_constant,
    "load_special": simple(
        "LOAD_SPECIAL", lambda em, op: SpecialMethod(SPECIAL_METHODS.index(op.arg))
    ),
    "binary_subscr": simple("BINARY_OP", lambda em, op: BinaryOp(SUBSCRIPT)),
    "build_interpolation": simple("BUILD_INTERPOLATION", lambda em, op: op.arg),
    "build_template": simple("BUILD_TEMPLATE"),
    "call_ex": _call_ex,
    "send": _send,
    "end_async_for": _end_async_for,
    "return_value": py311.EMIT["return_value"],
}
