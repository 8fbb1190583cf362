"""CPython 3.11 instructions as IR operations.

`LIFT` maps an instruction name to a rule `(simulation, instruction) -> None` that pops and pushes
on the simulated stack.  `JUMPS` does the same for instructions that end a block with a
conditional edge.  Source of the stack effects: CPython 3.11, ``Python/ceval.c``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir import BINARY_OPERATORS
from .rules import arg_of, branch, cell, into, jump, simple, sized

if TYPE_CHECKING:
    from .common import Simulation

#: Instructions before the body; lowering writes them again.
PROLOGUE = frozenset({"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR"})

#: Operations of the handler around the body of a generator: the interpreter does without one.
STOP_ITERATION: tuple[str, ...] = ()

#: Names in the `bytecode` package of the comparisons, and how the IR writes them.
COMPARISONS = {"LT": "<", "LE": "<=", "EQ": "==", "NE": "!=", "GT": ">", "GE": ">="}


def _dict_merge(sim: Simulation, instr: Any) -> None:
    (update,) = sim.pop(1)
    if instr.arg != 1:
        sim.refuse(f"DICT_MERGE {instr.arg}", instr)
    sim.emit("dict_merge", None, (*sim.stack[-3:], update), 0)


def _load_global(sim: Simulation, instr: Any) -> None:
    with_null, name = instr.arg
    if with_null:
        sim.op("null", None, 0, 1)
    sim.op("load_global", name, 0, 1)


def _copy(sim: Simulation, instr: Any) -> None:
    sim.push(sim.emit("copy", None, (sim.stack[-instr.arg],), 1))


def _swap(sim: Simulation, instr: Any) -> None:
    stack = sim.stack
    stack[-1], stack[-instr.arg] = stack[-instr.arg], stack[-1]


def _kw_names(sim: Simulation, instr: Any) -> None:
    sim.kwnames = instr.arg


def _precall(sim: Simulation, instr: Any) -> None:
    """PRECALL only prepares the CALL that follows."""


def _call(sim: Simulation, instr: Any) -> None:
    sim.op("call", sim.kwnames, instr.arg + 2, 1)
    sim.kwnames = ()


def _unpack_ex(sim: Simulation, instr: Any) -> None:
    before, after = instr.arg & 0xFF, instr.arg >> 8
    sim.op("unpack_ex", (before, after), 1, before + 1 + after)


def _unpack_sequence(sim: Simulation, instr: Any) -> None:
    sim.op("unpack_sequence", instr.arg, 1, instr.arg)


def _make_function(sim: Simulation, instr: Any) -> None:
    sim.op("make_function", instr.arg, 1 + int(instr.arg).bit_count(), 1)


def _resume(sim: Simulation, instr: Any) -> None:
    if instr.arg == 0:
        sim.fn.prologue["RESUME"] = instr.location
    else:
        sim.op("resume", instr.arg, 0, 0)


def _return(sim: Simulation, instr: Any) -> None:
    sim.terminate("return_value", None, sim.pop(1))


def _raise(sim: Simulation, instr: Any) -> None:
    sim.terminate("raise_varargs", instr.arg, sim.pop(instr.arg))


def _reraise(sim: Simulation, instr: Any) -> None:
    operands = [sim.stack[-1]]
    if instr.arg:
        operands.insert(0, sim.stack[-1 - instr.arg])
    sim.terminate("reraise", None, operands)


def _branch_or_pop(kind: str) -> Any:
    """JUMP_IF_X_OR_POP: test a copy; the value itself is dropped where it is not wanted."""

    def rule(sim: Simulation, instr: Any) -> None:
        (test,) = sim.emit("copy", None, (sim.stack[-1],), 1)
        sim.branch(kind, test, instr.arg, sim.fallthrough, drop_on_fallthrough=True)

    return rule


def _for_iter(sim: Simulation, instr: Any) -> None:
    sim.for_iter(sim.fallthrough, instr.arg)


def _send(sim: Simulation, instr: Any) -> None:
    sim.send(sim.fallthrough, instr.arg)


def _flag_bit(bits: int, base: int) -> Any:
    return lambda arg: base + ((int(arg) & bits) != 0)


LIFT: dict[str, Any] = {
    "NOP": simple("nop", 0, 0),
    "POP_TOP": simple("drop", 1, 0),
    "PUSH_NULL": simple("null", 0, 1),
    "COPY": _copy,
    "SWAP": _swap,
    "LOAD_CONST": simple("const", 0, 1, arg=arg_of),
    "LOAD_FAST": simple("load_check", 0, 1, arg=arg_of),
    "STORE_FAST": simple("store", 1, 0, arg=arg_of),
    "DELETE_FAST": simple("delete_check", 0, 0, arg=arg_of),
    "LOAD_CLOSURE": cell("load_closure", 0, 1),
    "LOAD_DEREF": cell("load_deref", 0, 1),
    "LOAD_CLASSDEREF": cell("load_classderef", 0, 1),
    "STORE_DEREF": cell("store_deref", 1, 0),
    "DELETE_DEREF": cell("delete_deref", 0, 0),
    "LOAD_GLOBAL": _load_global,
    "STORE_GLOBAL": simple("store_global", 1, 0, arg=arg_of),
    "DELETE_GLOBAL": simple("delete_global", 0, 0, arg=arg_of),
    "LOAD_NAME": simple("load_name", 0, 1, arg=arg_of),
    "STORE_NAME": simple("store_name", 1, 0, arg=arg_of),
    "DELETE_NAME": simple("delete_name", 0, 0, arg=arg_of),
    "LOAD_ATTR": simple("load_attr", 1, 1, arg=arg_of),
    "STORE_ATTR": simple("store_attr", 2, 0, arg=arg_of),
    "DELETE_ATTR": simple("delete_attr", 1, 0, arg=arg_of),
    "LOAD_METHOD": simple("load_method", 1, 2, arg=arg_of),
    "BINARY_OP": simple("binary_op", 2, 1, arg=lambda arg: BINARY_OPERATORS[arg]),
    "BINARY_SUBSCR": simple("binary_subscr", 2, 1),
    "STORE_SUBSCR": simple("store_subscr", 3, 0),
    "DELETE_SUBSCR": simple("delete_subscr", 2, 0),
    "COMPARE_OP": simple("compare_op", 2, 1, arg=lambda arg: COMPARISONS[arg.name]),
    "IS_OP": simple("is_op", 2, 1, arg=arg_of),
    "CONTAINS_OP": simple("contains_op", 2, 1, arg=arg_of),
    "UNARY_NEGATIVE": simple("unary_negative", 1, 1),
    "UNARY_POSITIVE": simple("unary_positive", 1, 1),
    "UNARY_NOT": simple("unary_not", 1, 1),
    "UNARY_INVERT": simple("unary_invert", 1, 1),
    "BUILD_TUPLE": sized("build_tuple", int),
    "BUILD_LIST": sized("build_list", int),
    "BUILD_SET": sized("build_set", int),
    "BUILD_MAP": sized("build_map", lambda n: 2 * n),
    "BUILD_STRING": sized("build_string", int),
    "BUILD_SLICE": sized("build_slice", int),
    "BUILD_CONST_KEY_MAP": sized("build_const_key_map", lambda n: n + 1),
    "FORMAT_VALUE": sized("format_value", _flag_bit(4, 1), arg=int),
    "LIST_TO_TUPLE": simple("list_to_tuple", 1, 1),
    "LIST_APPEND": into("list_append", 1),
    "LIST_EXTEND": into("list_extend", 1),
    "SET_ADD": into("set_add", 1),
    "SET_UPDATE": into("set_update", 1),
    "DICT_UPDATE": into("dict_update", 1),
    "MAP_ADD": into("map_add", 2),
    "DICT_MERGE": _dict_merge,
    "UNPACK_SEQUENCE": _unpack_sequence,
    "UNPACK_EX": _unpack_ex,
    "GET_LEN": simple("get_len", 1, 1, 1),
    "MATCH_MAPPING": simple("match_mapping", 1, 1, 1),
    "MATCH_SEQUENCE": simple("match_sequence", 1, 1, 1),
    "MATCH_KEYS": simple("match_keys", 2, 1, 2),
    "MATCH_CLASS": simple("match_class", 3, 1, arg=arg_of),
    "GET_ITER": simple("get_iter", 1, 1),
    "GET_YIELD_FROM_ITER": simple("get_yield_from_iter", 1, 1),
    "GET_AITER": simple("get_aiter", 1, 1),
    "GET_ANEXT": simple("get_anext", 1, 1, 1),
    "GET_AWAITABLE": simple("get_awaitable", 1, 1, arg=arg_of),
    "YIELD_VALUE": simple("yield_value", 1, 1),
    "ASYNC_GEN_WRAP": simple("async_gen_wrap", 1, 1),
    "END_ASYNC_FOR": simple("end_async_for", 2, 0),
    "BEFORE_WITH": simple("before_with", 1, 2),
    "BEFORE_ASYNC_WITH": simple("before_async_with", 1, 2),
    "WITH_EXCEPT_START": simple("with_except_start", 4, 1, 4),
    "PUSH_EXC_INFO": simple("push_exc_info", 1, 2),
    "POP_EXCEPT": simple("pop_except", 1, 0),
    "CHECK_EXC_MATCH": simple("check_exc_match", 2, 1, 1),
    "CHECK_EG_MATCH": simple("check_eg_match", 2, 2),
    "PREP_RERAISE_STAR": simple("prep_reraise_star", 2, 1),
    "IMPORT_NAME": simple("import_name", 2, 1, arg=arg_of),
    "IMPORT_FROM": simple("import_from", 1, 1, 1, arg=arg_of),
    "IMPORT_STAR": simple("import_star", 1, 0),
    "PRINT_EXPR": simple("print_expr", 1, 0),
    "SETUP_ANNOTATIONS": simple("setup_annotations", 0, 0),
    "LOAD_BUILD_CLASS": simple("load_build_class", 0, 1),
    "LOAD_ASSERTION_ERROR": simple("load_assertion_error", 0, 1),
    "MAKE_FUNCTION": _make_function,
    "KW_NAMES": _kw_names,
    "PRECALL": _precall,
    "CALL": _call,
    "CALL_FUNCTION_EX": sized("call_ex", _flag_bit(1, 3), arg=lambda arg: int(arg) & 1),
    "RESUME": _resume,
}

#: Instructions that end a block.
JUMPS: dict[str, Any] = {
    "RETURN_VALUE": _return,
    "RAISE_VARARGS": _raise,
    "RERAISE": _reraise,
    "JUMP_FORWARD": jump(None),
    "JUMP_BACKWARD": jump(None),
    "JUMP_BACKWARD_NO_INTERRUPT": jump("no_interrupt"),
    "FOR_ITER": _for_iter,
    "SEND": _send,
    "JUMP_IF_TRUE_OR_POP": _branch_or_pop("true"),
    "JUMP_IF_FALSE_OR_POP": _branch_or_pop("false"),
    **{
        f"POP_JUMP_{direction}_IF_{kind.upper()}": branch(kind)
        for direction in ("FORWARD", "BACKWARD")
        for kind in ("true", "false", "none", "not_none")
    },
}
