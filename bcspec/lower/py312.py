"""What CPython 3.12 changes in the instructions of 3.11; `bcspec.lift.py312` tells it all.

Conditional jumps only go forward, so a way back takes a jump of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import Instr, Intrinsic1Op, Intrinsic2Op, Label

from ..errors import UnsupportedBytecode
from ..ir import CLASH
from ..lift.py312 import INTRINSICS_1, INTRINSICS_2, INTRINSICS_DROPPED
from . import py311
from .py311 import COMPARISONS, FORWARD_ONLY, LAST_LOCAL_DIES_FIRST, tests_safely
from .rules import arg_of, plain_jump, simple, variable_of

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

EXTRA_STACK = py311.EXTRA_STACK
LINES_ABOVE = py311.LINES_ABOVE
SIGNAL_AT_TARGET = True
CHECKED_LOAD = True
NULL_AFTER = False
UNWINDS_BEFORE = py311.UNWINDS_BEFORE

#: Instructions on the way on of a conditional jump.
NOT_TAKEN: tuple[str, ...] = ()

LANDINGS = {"for_iter": ("END_FOR",), "send": ("END_SEND",)}

STOP_ITERATION = (("CALL_INTRINSIC_1", Intrinsic1Op.INTRINSIC_STOPITERATION_ERROR), ("RERAISE", 1))


#: Flag of a function's code, whose frame has no mapping of locals.
_OPTIMIZED = 0x1


def prologue(em: Emission) -> None:
    """As in 3.11; then the locals of a module or class body are marked as hidden.

    There they belong to comprehensions, and `locals()` must not show them.  The interpreter knows
    them by LOAD_FAST_AND_CLEAR (CPython issue 110543), which the evaluator may have done without.
    """
    py311.prologue(em)
    fn = em.fn
    if fn.flags & _OPTIMIZED or not fn.varnames:
        return
    ops = [op for block in fn.blocks for op in block.ops]
    marked = {slot_of(em, op) for op in ops if op.name in ("load_clear", "load_clear_cell")}
    used = {slot_of(em, op) for op in ops if op.name in ("store", "load", "load_check")}
    for name in fn.varnames:
        if name in used and name not in marked:
            em.instr("LOAD_FAST_AND_CLEAR", name)
            em.instr("STORE_FAST", name)
            em.max_depth = max(em.max_depth, 1)


def _flagged(name: str, with_null: bool) -> Any:
    """LOAD_ATTR and LOAD_SUPER_ATTR, for both slots of a callable or for the value."""

    def arg(em: Emission, op: Op) -> tuple[Any, ...]:
        own, *rest = op.arg if isinstance(op.arg, tuple) else (op.arg,)
        return (with_null, *rest, own)

    return simple(name, arg)


def slot_of(em: Emission, op: Op) -> str:
    """The slot of a local; the one of a cell that is set aside may hold another variable."""
    return op.arg.rstrip(CLASH) if op.arg in em.fn.shadows else op.arg


def _load(em: Emission, op: Op) -> None:
    """LOAD_FAST, which trusts that the local is bound, or LOAD_FAST_CHECK."""
    certain = op.arg in em.bound
    if not certain:
        em.wanted_key = None if em.block.handler is None else em.wanted_key
    em.instr("LOAD_FAST" if certain else "LOAD_FAST_CHECK", slot_of(em, op))
    em.consume(op)


def _build_slice(em: Emission, op: Op) -> None:
    """BINARY_SLICE or STORE_SLICE where the slice is all that the next operation waits for."""
    follower = em.following()
    name = {"binary_subscr": "BINARY_SLICE", "store_subscr": "STORE_SLICE"}.get(follower.name)
    fusible = (
        name is not None
        and len(op.operands) == 2
        and follower.operands[-1] is op.results[0]
        and follower.pos == op.pos
        and follower in em.block.ops
    )
    if not fusible:
        py311.EMIT["build_slice"](em, op)
        return
    em.arrange((*follower.operands[:-1], *op.operands))
    em.instr(str(name))
    em.consume(op)
    em.consume(follower)
    em.done.add(follower)


def _call(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    if op.arg:
        em.instr("KW_NAMES", op.arg)
    em.instr("CALL", len(op.operands) - 2)
    em.consume(op)


def _return(em: Emission, op: Op) -> None:
    """RETURN_VALUE, together with the constant right below it."""
    em.arrange(op.operands)
    last = em.code[-1] if len(em.code) else None
    fusible = (
        isinstance(last, Instr)
        and last.name == "LOAD_CONST"
        and last.location == em.pos
        and em.region_key == em.wanted_key
    )
    if fusible:
        em.code.pop()
        em.instr("RETURN_CONST", last.arg)  # type: ignore[union-attr]
    else:
        em.instr("RETURN_VALUE")


def _intrinsic_1(number: int) -> Any:
    return simple("CALL_INTRINSIC_1", lambda em, op: Intrinsic1Op(number))


def _intrinsic_2(number: int) -> Any:
    return simple("CALL_INTRINSIC_2", lambda em, op: Intrinsic2Op(number))


def _dropped(number: int) -> Any:
    """An intrinsic function whose result nobody wants."""

    def rule(em: Emission, op: Op) -> None:
        em.arrange(op.operands)
        em.instr("CALL_INTRINSIC_1", Intrinsic1Op(number))
        em.instr("POP_TOP")
        em.consume(op)

    return rule


def _cleanup_throw(em: Emission, op: Op) -> None:
    """The value sent last, which is not in the IR, is None when an exception is thrown in."""
    em.arrange(op.operands)
    em.instr("LOAD_CONST", None)
    em.instr("SWAP", 2)
    em.max_depth = max(em.max_depth, len(em.stack) + 1)
    em.instr("CLEANUP_THROW")
    em.instr("END_SEND")
    em.consume(op)


def _nothing(em: Emission, op: Op) -> None:
    """An operation that takes no instruction."""


def _branch(em: Emission, op: Op) -> None:
    taken, other = em.block.edges
    if taken.args != other.args:
        raise UnsupportedBytecode("a branch whose ways out differ in stack order")
    (test,) = op.operands
    em.settle((*taken.args, test))
    kind = op.arg
    back, other_back = em.is_backward(taken.target), em.is_backward(other.target)
    falls_into = em.is_next(taken.target) and not em.is_next(other.target)
    if not other_back and (back or falls_into):
        taken, other, kind = other, taken, py311.OPPOSITE[kind]
    jump_if(em, f"POP_JUMP_IF_{kind.upper()}", taken.target, other.target)


def jump_if(em: Emission, name: str, taken: Block, other: Block) -> None:
    """A conditional jump; where both ways lead back, over the jump for the other one."""
    around = Label() if em.is_backward(taken) else None
    if around is None:
        em.jump_to(name, taken)
    else:
        em.instr(name, around)
    for follower in em.table.NOT_TAKEN:
        em.instr(follower)
    plain_jump(em, other)
    if around is None:
        return
    em.code.append(around)
    plain_jump(em, taken)


EMIT: dict[str, Any] = {
    **{k: v for k, v in py311.EMIT.items() if k != "load_classderef"},
    "load": _load,
    "load_check": simple("LOAD_FAST_CHECK", slot_of),
    "load_clear": simple("LOAD_FAST_AND_CLEAR", slot_of),
    "store": simple("STORE_FAST", slot_of),
    "load_clear_cell": simple("LOAD_FAST_AND_CLEAR", arg_of),
    "store_cell": simple("STORE_FAST", arg_of),
    "drop_cell": _nothing,  # what is stored next takes its slot
    "make_cell": simple("MAKE_CELL", variable_of),
    "load_locals": simple("LOAD_LOCALS"),
    "load_from_dict_or_globals": simple("LOAD_FROM_DICT_OR_GLOBALS", arg_of),
    "load_from_dict_or_deref": simple("LOAD_FROM_DICT_OR_DEREF", variable_of),
    "load_attr": _flagged("LOAD_ATTR", False),
    "load_method": _flagged("LOAD_ATTR", True),
    "load_super_attr": _flagged("LOAD_SUPER_ATTR", False),
    "load_super_method": _flagged("LOAD_SUPER_ATTR", True),
    "build_slice": _build_slice,
    "call": _call,
    "yield_value": simple("YIELD_VALUE", arg_of),
    "cleanup_throw": _cleanup_throw,
    "return_value": _return,
    "branch": _branch,
    **{name: _intrinsic_1(number) for number, name in INTRINSICS_1.items()},
    **{name: _dropped(number) for number, name in INTRINSICS_DROPPED.items()},
    **{name: _intrinsic_2(number) for number, name in INTRINSICS_2.items()},
}
