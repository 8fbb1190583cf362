"""IR operations as CPython 3.11 instructions.

`EMIT` maps an operation to a rule `(emission, operation) -> None`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import BinaryOp, Compare

from ..errors import UnsupportedBytecode
from ..ir import BINARY_OPERATORS, GENERATORS
from .rules import arg_of, count_of, into, plain_jump, simple, variable_of

if TYPE_CHECKING:
    from ..ir import Op
    from .common import Emission

#: Room that instructions use on top of what the model of the stack shows.
EXTRA_STACK = 0

#: Whether lines before the first line of a function are told right to debuggers.
LINES_ABOVE = True

#: A signal noticed at a jump back is raised by the instruction before the target.
SIGNAL_AT_TARGET = True

#: Whether the NULL of a callable comes after it.
NULL_AFTER = False

#: Whether the slots of a frame are cleared from the last to the first.
LAST_LOCAL_DIES_FIRST = False

#: Instructions that call Python functions in the same evaluation loop, where an exception that
#: leaves the function counts as raised by the code unit before: that has to be in the same region.
UNWINDS_BEFORE: frozenset[str] = frozenset()

#: Whether reading a local without a check has an instruction of its own.
CHECKED_LOAD = False

#: What the target of a jump out of a loop or delegation has to begin with, by kind of landing.
LANDINGS: dict[str, tuple[str, ...]] = {}

#: Instructions of the handler around the body of a generator; none here.
STOP_ITERATION: tuple[tuple[str, int], ...] = ()

#: Edges that are encoded as forward jumps whatever the layout.
FORWARD_ONLY = {"for_iter": (1,), "send": (1,)}


COMPARISONS = {
    "<": Compare.LT,
    "<=": Compare.LE,
    "==": Compare.EQ,
    "!=": Compare.NE,
    ">": Compare.GT,
    ">=": Compare.GE,
}


def tests_safely(em: Emission, op: Op) -> bool:
    """Whether `op` branches on what has been made a bool before, so that it cannot raise."""
    return False


def prologue(em: Emission) -> None:
    """COPY_FREE_VARS, MAKE_CELL, RETURN_GENERATOR with its POP_TOP, RESUME."""
    fn = em.fn
    em.pos = fn.prologue.get("COPY_FREE_VARS")
    if fn.freevars:
        em.instr("COPY_FREE_VARS", len(fn.freevars))
    em.pos = fn.prologue.get("MAKE_CELL")
    for name in fn.cellvars:
        em.instr("MAKE_CELL", em.variable(name))
    if fn.flags & GENERATORS:
        em.pos = fn.prologue.get("RETURN_GENERATOR")
        em.instr("RETURN_GENERATOR")
        em.instr("POP_TOP")
        em.max_depth = max(em.max_depth, 1)
    em.wanted_key = em.outer_key
    if "RESUME" in fn.prologue:
        em.pos = fn.prologue["RESUME"]
        em.instr("RESUME", 0)


def _const(em: Emission, op: Op) -> None:
    em.instr("LOAD_CONST", op.arg)
    em.consume(op)


def _copy(em: Emission, op: Op) -> None:
    """COPY, after bringing up what the next operation takes below the copy (`a < b < c`)."""
    follower = em.following()
    if follower.operands and follower.operands[-1] is op.results[0]:
        em.arrange(follower.operands[:-1])
    em.instr("COPY", em.depth_of(op.operands[0]))
    em.consume(op)


def _clear(em: Emission, op: Op) -> None:
    """Unbind a local that may be unbound already."""
    em.instr("LOAD_CONST", None)
    em.instr("STORE_FAST", op.arg)
    em.instr("DELETE_FAST", op.arg)
    em.max_depth = max(em.max_depth, len(em.stack) + 1)


def _load_global(em: Emission, op: Op) -> None:
    """LOAD_GLOBAL, together with the NULL right below it when there is one."""
    code = em.code
    last = code[-1] if len(code) else None
    if (
        last is not None
        and getattr(last, "name", "") == "PUSH_NULL"
        and em.region_key == em.wanted_key
    ):
        code.pop()
        em.instr("LOAD_GLOBAL", (True, op.arg))
    else:
        em.instr("LOAD_GLOBAL", (False, op.arg))
    em.consume(op)


def _call(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    count = len(op.operands) - 2
    if op.arg:
        em.instr("KW_NAMES", op.arg)
    em.instr("PRECALL", count)
    em.instr("CALL", count)
    em.consume(op)


def _unpack_ex(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    before, after = op.arg
    em.instr("UNPACK_EX", before + (after << 8))
    em.consume(op)


def _return(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    em.instr("RETURN_VALUE")


def _raise(em: Emission, op: Op) -> None:
    em.arrange(op.operands)
    em.instr("RAISE_VARARGS", len(op.operands))


def _reraise(em: Emission, op: Op) -> None:
    em.arrange(op.operands[-1:])
    em.instr("RERAISE", em.depth_of(op.operands[0]) - 1)


def _jump(em: Emission, op: Op) -> None:
    (edge,) = em.block.edges
    em.settle(edge.args)
    em.guard(op)
    target = edge.target
    if not em.is_backward(target):
        em.go(target, "JUMP_FORWARD")
    else:
        em.go(target, "JUMP_BACKWARD_NO_INTERRUPT" if op.arg == "no_interrupt" else "JUMP_BACKWARD")


OPPOSITE = {"true": "false", "false": "true", "none": "not_none", "not_none": "none"}


def _branch(em: Emission, op: Op) -> None:
    taken, other = em.block.edges
    if taken.args != other.args:
        raise UnsupportedBytecode("a branch whose ways out differ in stack order")
    (test,) = op.operands
    em.settle((*taken.args, test))
    kind = op.arg
    if em.is_next(taken.target) and not em.is_next(other.target):
        taken, other, kind = other, taken, OPPOSITE[kind]
    elif _jump_or_pop(em, op):
        return
    direction = "BACKWARD" if em.is_backward(taken.target) else "FORWARD"
    em.jump_to(f"POP_JUMP_{direction}_IF_{kind.upper()}", taken.target)
    plain_jump(em, other.target)


def _jump_or_pop(em: Emission, op: Op) -> bool:
    """Fuse the test of a copy, whose original is dropped on the other way, into one instruction."""
    taken, other = em.block.edges
    ops, follower = em.block.ops, other.target
    fusible = (
        bool(ops)
        and ops[-1].name == "copy"
        and ops[-1].results == op.operands
        and op.arg in ("true", "false")
        and ops[-1].operands[0] in em.stack[-2:-1]
        and em.is_next(follower)
        and not em.is_backward(taken.target)
        and len(em.preds[follower]) == 1
        and follower not in em.handled
        and bool(follower.ops)
        and follower.ops[0].name == "drop"
        and follower.ops[0].operands[0] is follower.params[-1]
        and getattr(em.code[-1], "name", "") == "COPY"
    )
    if fusible:
        em.code.pop()
        em.jump_to(f"JUMP_IF_{op.arg.upper()}_OR_POP", taken.target)
        em.skip.add(follower.ops[0])
    return fusible


def _for_iter(em: Emission, op: Op) -> None:
    body, exhausted = em.block.edges
    em.settle((*exhausted.args, op.operands[0]))
    em.jump_out("FOR_ITER", op.name, exhausted.target)
    em.consume(op)
    em.settle(body.args)
    plain_jump(em, body.target)


def send(em: Emission, op: Op, landing: str = "send") -> None:
    suspended, finished = em.block.edges
    em.settle((*finished.args[:-1], *op.operands))
    em.jump_out("SEND", landing, finished.target)
    em.consume(op)
    em.settle(suspended.args)
    plain_jump(em, suspended.target)


EMIT: dict[str, Any] = {
    "nop": simple("NOP"),
    "resume": simple("RESUME", arg_of),
    "drop": simple("POP_TOP"),
    "null": simple("PUSH_NULL"),
    "const": _const,
    "copy": _copy,
    "load": simple("LOAD_FAST", arg_of),
    "load_check": simple("LOAD_FAST", arg_of),
    "store": simple("STORE_FAST", arg_of),
    "delete": simple("DELETE_FAST", arg_of),
    "delete_check": simple("DELETE_FAST", arg_of),
    "clear": _clear,
    "load_closure": simple("LOAD_CLOSURE", variable_of),
    "load_deref": simple("LOAD_DEREF", variable_of),
    "load_classderef": simple("LOAD_CLASSDEREF", variable_of),
    "store_deref": simple("STORE_DEREF", variable_of),
    "delete_deref": simple("DELETE_DEREF", variable_of),
    "load_global": _load_global,
    "store_global": simple("STORE_GLOBAL", arg_of),
    "delete_global": simple("DELETE_GLOBAL", arg_of),
    "load_name": simple("LOAD_NAME", arg_of),
    "store_name": simple("STORE_NAME", arg_of),
    "delete_name": simple("DELETE_NAME", arg_of),
    "load_attr": simple("LOAD_ATTR", arg_of),
    "store_attr": simple("STORE_ATTR", arg_of),
    "delete_attr": simple("DELETE_ATTR", arg_of),
    "load_method": simple("LOAD_METHOD", arg_of),
    "binary_op": simple("BINARY_OP", lambda em, op: BinaryOp(BINARY_OPERATORS.index(op.arg))),
    "binary_subscr": simple("BINARY_SUBSCR"),
    "store_subscr": simple("STORE_SUBSCR"),
    "delete_subscr": simple("DELETE_SUBSCR"),
    "compare_op": simple("COMPARE_OP", lambda em, op: COMPARISONS[op.arg]),
    "is_op": simple("IS_OP", arg_of),
    "contains_op": simple("CONTAINS_OP", arg_of),
    "unary_negative": simple("UNARY_NEGATIVE"),
    "unary_positive": simple("UNARY_POSITIVE"),
    "unary_not": simple("UNARY_NOT"),
    "unary_invert": simple("UNARY_INVERT"),
    "build_tuple": simple("BUILD_TUPLE", count_of),
    "build_list": simple("BUILD_LIST", count_of),
    "build_set": simple("BUILD_SET", count_of),
    "build_map": simple("BUILD_MAP", lambda em, op: len(op.operands) // 2),
    "build_string": simple("BUILD_STRING", count_of),
    "build_slice": simple("BUILD_SLICE", count_of),
    "build_const_key_map": simple("BUILD_CONST_KEY_MAP", lambda em, op: len(op.operands) - 1),
    "format_value": simple("FORMAT_VALUE", arg_of),
    "list_to_tuple": simple("LIST_TO_TUPLE"),
    "list_append": into("LIST_APPEND"),
    "list_extend": into("LIST_EXTEND"),
    "set_add": into("SET_ADD"),
    "set_update": into("SET_UPDATE"),
    "dict_update": into("DICT_UPDATE"),
    "map_add": into("MAP_ADD"),
    "dict_merge": simple("DICT_MERGE", lambda em, op: 1),
    "unpack_sequence": simple("UNPACK_SEQUENCE", arg_of),
    "unpack_ex": _unpack_ex,
    "get_len": simple("GET_LEN"),
    "match_mapping": simple("MATCH_MAPPING"),
    "match_sequence": simple("MATCH_SEQUENCE"),
    "match_keys": simple("MATCH_KEYS"),
    "match_class": simple("MATCH_CLASS", arg_of),
    "get_iter": simple("GET_ITER"),
    "get_yield_from_iter": simple("GET_YIELD_FROM_ITER"),
    "get_aiter": simple("GET_AITER"),
    "get_anext": simple("GET_ANEXT"),
    "get_awaitable": simple("GET_AWAITABLE", arg_of),
    "yield_value": simple("YIELD_VALUE"),
    "async_gen_wrap": simple("ASYNC_GEN_WRAP"),
    "end_async_for": simple("END_ASYNC_FOR"),
    "before_with": simple("BEFORE_WITH"),
    "before_async_with": simple("BEFORE_ASYNC_WITH"),
    "with_except_start": simple("WITH_EXCEPT_START"),
    "push_exc_info": simple("PUSH_EXC_INFO"),
    "pop_except": simple("POP_EXCEPT"),
    "check_exc_match": simple("CHECK_EXC_MATCH"),
    "check_eg_match": simple("CHECK_EG_MATCH"),
    "prep_reraise_star": simple("PREP_RERAISE_STAR"),
    "import_name": simple("IMPORT_NAME", arg_of),
    "import_from": simple("IMPORT_FROM", arg_of),
    "import_star": simple("IMPORT_STAR"),
    "print_expr": simple("PRINT_EXPR"),
    "setup_annotations": simple("SETUP_ANNOTATIONS"),
    "load_build_class": simple("LOAD_BUILD_CLASS"),
    "load_assertion_error": simple("LOAD_ASSERTION_ERROR"),
    "make_function": simple("MAKE_FUNCTION", arg_of),
    "call": _call,
    "call_ex": simple("CALL_FUNCTION_EX", arg_of),
    "jump": _jump,
    "branch": _branch,
    "for_iter": _for_iter,
    "send": send,
    "return_value": _return,
    "raise_varargs": _raise,
    "reraise": _reraise,
}
