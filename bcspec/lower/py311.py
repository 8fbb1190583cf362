"""IR operations as CPython 3.11 instructions.

`EMIT` maps an operation to a rule `(emission, operation) -> None`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import UNSET, BinaryOp, Compare

from ..errors import UnsupportedBytecode
from ..ir import BINARY_OPERATORS

if TYPE_CHECKING:
    from ..ir import Op
    from .common import Emission

#: Room that instructions use on top of what the model of the stack shows.
EXTRA_STACK = 0

#: A signal noticed at a jump back is raised by the instruction before the target.
SIGNAL_AT_TARGET = True

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


def prologue(em: Emission) -> None:
    """COPY_FREE_VARS, MAKE_CELL, RETURN_GENERATOR with its POP_TOP, RESUME."""
    fn = em.fn
    em.pos = fn.prologue.get("COPY_FREE_VARS")
    if fn.freevars:
        em.instr("COPY_FREE_VARS", len(fn.freevars))
    em.pos = fn.prologue.get("MAKE_CELL")
    for name in fn.cellvars:
        em.instr("MAKE_CELL", em.variable(name))
    if fn.flags & (0x20 | 0x80 | 0x200):  # generator, coroutine, asynchronous generator
        em.pos = fn.prologue.get("RETURN_GENERATOR")
        em.instr("RETURN_GENERATOR")
        em.instr("POP_TOP")
        em.max_depth = max(em.max_depth, 1)
    if "RESUME" in fn.prologue:
        em.pos = fn.prologue["RESUME"]
        em.instr("RESUME", 0)


def _simple(name: str, arg: Any = None) -> Any:
    """An instruction that takes its operands from the top of the stack."""

    def rule(em: Emission, op: Op) -> None:
        em.arrange(op.operands)
        em.instr(name, UNSET if arg is None else arg(em, op))
        em.consume(op)

    return rule


def _arg(em: Emission, op: Op) -> Any:
    return op.arg


def _cell(em: Emission, op: Op) -> Any:
    return em.variable(op.arg)


def _count(em: Emission, op: Op) -> int:
    return len(op.operands)


def _into(name: str) -> Any:
    """An instruction that adds the top of the stack to a container further down."""

    def rule(em: Emission, op: Op) -> None:
        em.arrange(op.operands[1:])
        em.instr(name, em.depth_of(op.operands[0]) - len(op.operands) + 1)
        em.consume(op)

    return rule


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


_OPPOSITE = {"true": "false", "false": "true", "none": "not_none", "not_none": "none"}


def _plain_jump(em: Emission, target: Any) -> None:
    em.go(target, "JUMP_BACKWARD" if em.is_backward(target) else "JUMP_FORWARD")


def _branch(em: Emission, op: Op) -> None:
    taken, other = em.block.edges
    if taken.args != other.args:
        raise UnsupportedBytecode("a branch whose ways out differ in stack order")
    (test,) = op.operands
    em.settle((*taken.args, test))
    kind = op.arg
    if em.is_next(taken.target) and not em.is_next(other.target):
        taken, other, kind = other, taken, _OPPOSITE[kind]
    elif _jump_or_pop(em, op):
        return
    direction = "BACKWARD" if em.is_backward(taken.target) else "FORWARD"
    em.jump_to(f"POP_JUMP_{direction}_IF_{kind.upper()}", taken.target)
    _plain_jump(em, other.target)


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
    em.jump_to("FOR_ITER", exhausted.target)
    em.consume(op)
    em.settle(body.args)
    _plain_jump(em, body.target)


def _send(em: Emission, op: Op) -> None:
    suspended, finished = em.block.edges
    em.settle((*finished.args[:-1], *op.operands))
    em.jump_to("SEND", finished.target)
    em.consume(op)
    em.settle(suspended.args)
    _plain_jump(em, suspended.target)


EMIT: dict[str, Any] = {
    "nop": _simple("NOP"),
    "resume": _simple("RESUME", _arg),
    "drop": _simple("POP_TOP"),
    "null": _simple("PUSH_NULL"),
    "const": _const,
    "copy": _copy,
    "load": _simple("LOAD_FAST", _arg),
    "load_check": _simple("LOAD_FAST", _arg),
    "store": _simple("STORE_FAST", _arg),
    "delete": _simple("DELETE_FAST", _arg),
    "delete_check": _simple("DELETE_FAST", _arg),
    "clear": _clear,
    "load_closure": _simple("LOAD_CLOSURE", _cell),
    "load_deref": _simple("LOAD_DEREF", _cell),
    "load_classderef": _simple("LOAD_CLASSDEREF", _cell),
    "store_deref": _simple("STORE_DEREF", _cell),
    "delete_deref": _simple("DELETE_DEREF", _cell),
    "load_global": _load_global,
    "store_global": _simple("STORE_GLOBAL", _arg),
    "delete_global": _simple("DELETE_GLOBAL", _arg),
    "load_name": _simple("LOAD_NAME", _arg),
    "store_name": _simple("STORE_NAME", _arg),
    "delete_name": _simple("DELETE_NAME", _arg),
    "load_attr": _simple("LOAD_ATTR", _arg),
    "store_attr": _simple("STORE_ATTR", _arg),
    "delete_attr": _simple("DELETE_ATTR", _arg),
    "load_method": _simple("LOAD_METHOD", _arg),
    "binary_op": _simple("BINARY_OP", lambda em, op: BinaryOp(BINARY_OPERATORS.index(op.arg))),
    "binary_subscr": _simple("BINARY_SUBSCR"),
    "store_subscr": _simple("STORE_SUBSCR"),
    "delete_subscr": _simple("DELETE_SUBSCR"),
    "compare_op": _simple("COMPARE_OP", lambda em, op: COMPARISONS[op.arg]),
    "is_op": _simple("IS_OP", _arg),
    "contains_op": _simple("CONTAINS_OP", _arg),
    "unary_negative": _simple("UNARY_NEGATIVE"),
    "unary_positive": _simple("UNARY_POSITIVE"),
    "unary_not": _simple("UNARY_NOT"),
    "unary_invert": _simple("UNARY_INVERT"),
    "build_tuple": _simple("BUILD_TUPLE", _count),
    "build_list": _simple("BUILD_LIST", _count),
    "build_set": _simple("BUILD_SET", _count),
    "build_map": _simple("BUILD_MAP", lambda em, op: len(op.operands) // 2),
    "build_string": _simple("BUILD_STRING", _count),
    "build_slice": _simple("BUILD_SLICE", _count),
    "build_const_key_map": _simple("BUILD_CONST_KEY_MAP", lambda em, op: len(op.operands) - 1),
    "format_value": _simple("FORMAT_VALUE", _arg),
    "list_to_tuple": _simple("LIST_TO_TUPLE"),
    "list_append": _into("LIST_APPEND"),
    "list_extend": _into("LIST_EXTEND"),
    "set_add": _into("SET_ADD"),
    "set_update": _into("SET_UPDATE"),
    "dict_update": _into("DICT_UPDATE"),
    "map_add": _into("MAP_ADD"),
    "dict_merge": _simple("DICT_MERGE", lambda em, op: 1),
    "unpack_sequence": _simple("UNPACK_SEQUENCE", _arg),
    "unpack_ex": _unpack_ex,
    "get_len": _simple("GET_LEN"),
    "match_mapping": _simple("MATCH_MAPPING"),
    "match_sequence": _simple("MATCH_SEQUENCE"),
    "match_keys": _simple("MATCH_KEYS"),
    "match_class": _simple("MATCH_CLASS", _arg),
    "get_iter": _simple("GET_ITER"),
    "get_yield_from_iter": _simple("GET_YIELD_FROM_ITER"),
    "get_aiter": _simple("GET_AITER"),
    "get_anext": _simple("GET_ANEXT"),
    "get_awaitable": _simple("GET_AWAITABLE", _arg),
    "yield_value": _simple("YIELD_VALUE"),
    "async_gen_wrap": _simple("ASYNC_GEN_WRAP"),
    "end_async_for": _simple("END_ASYNC_FOR"),
    "before_with": _simple("BEFORE_WITH"),
    "before_async_with": _simple("BEFORE_ASYNC_WITH"),
    "with_except_start": _simple("WITH_EXCEPT_START"),
    "push_exc_info": _simple("PUSH_EXC_INFO"),
    "pop_except": _simple("POP_EXCEPT"),
    "check_exc_match": _simple("CHECK_EXC_MATCH"),
    "check_eg_match": _simple("CHECK_EG_MATCH"),
    "prep_reraise_star": _simple("PREP_RERAISE_STAR"),
    "import_name": _simple("IMPORT_NAME", _arg),
    "import_from": _simple("IMPORT_FROM", _arg),
    "import_star": _simple("IMPORT_STAR"),
    "print_expr": _simple("PRINT_EXPR"),
    "setup_annotations": _simple("SETUP_ANNOTATIONS"),
    "load_build_class": _simple("LOAD_BUILD_CLASS"),
    "load_assertion_error": _simple("LOAD_ASSERTION_ERROR"),
    "make_function": _simple("MAKE_FUNCTION", _arg),
    "call": _call,
    "call_ex": _simple("CALL_FUNCTION_EX", _arg),
    "jump": _jump,
    "branch": _branch,
    "for_iter": _for_iter,
    "send": _send,
    "return_value": _return,
    "raise_varargs": _raise,
    "reraise": _reraise,
}
