"""CPython 3.11.

Source of the effects: the interpreter loop of 3.11 (``Python/ceval.c``), read for what each
instruction takes, leaves, and trusts without a check.
"""

from __future__ import annotations

import opcode

from . import actions as a
from . import kinds as k
from .model import Effect, Flow, Operand, Spec, Table
from .specs import NAME, NOTHING, OBJECT, adds, bounded, fixed, group, makes, peeks, sized

_CALLABLE = k.OBJECT | k.ITERATES


def _dict_merge(depth: int) -> Effect:
    """Like `adds`; the callable two slots below the dict is named in errors."""
    return Effect((OBJECT, k.ANY, k.DICT, *(k.ANY,) * (depth - 1), OBJECT), 1)


def _call(count: int) -> Effect:
    """NULL or a method, a callable or its first argument, then arguments."""
    return Effect((k.ANY, _CALLABLE, *(OBJECT,) * count), count + 2)


def _precall(count: int) -> Effect:
    """Changes only the two slots that the CALL right after it takes."""
    return Effect((k.ANY, _CALLABLE, *(OBJECT,) * count), 0)


def _call_ex(flags: int) -> Effect:
    """The slot under the callable is overwritten without being released."""
    operands = 2 + (flags & 1)
    return Effect((k.NULL, *(OBJECT,) * operands), operands + 1, (k.VALUE,))


def _load_global(arg: int) -> Effect:
    return Effect(None, 0, (k.NULL, k.VALUE) if arg & 1 else (k.VALUE,))


def _make_function(flags: int) -> Effect:
    wanted = ((1, k.TUPLES), (2, k.DICT), (4, k.TUPLE), (8, k.CELLS))
    reads = (*(kinds for flag, kinds in wanted if flags & flag), k.CODE)
    return Effect(reads, len(reads))


def _unpack_ex(counts: int) -> Effect:
    before, after = counts & 0xFF, counts >> 8
    return Effect(None, 1, (k.VALUE,) * after + (k.LIST,) + (k.VALUE,) * before)


def _build_list(count: int) -> Effect:
    return Effect(None, count, (k.LIST if count else k.EXC_LIST,))


def _reraise(depth: int) -> Effect:
    if not depth:
        return Effect((k.EXC,), 1)
    return Effect((k.LASTI, *(k.ANY,) * (depth - 1), k.EXC), 1)


def _branch(pops: int, taken_pops: int, backward: bool = False) -> Spec:
    effect = Effect((OBJECT,), pops, (), taken_pops)
    return Spec(effect, flow=Flow.BRANCH, backward=backward)


def _none_branch(when_none: bool, backward: bool) -> Spec:
    return Spec(
        Effect((OBJECT,), 1),
        flow=Flow.SPLIT,
        backward=backward,
        raises=False,
        action=a.none_test(when_none),
    )


_STACK = {
    "NOP": fixed(0, raises=False),
    "POP_TOP": fixed(1, raises=False),
    "PUSH_NULL": makes(k.NULL, 0, raises=False),
    "COPY": Spec(
        lambda depth: Effect((OBJECT, *(k.ANY,) * (depth - 1)), 0),
        Operand.COUNT,
        1,
        raises=False,
        action=a.copy,
    ),
    "SWAP": Spec(
        lambda depth: Effect((k.ANY,) * depth, 0), Operand.COUNT, 2, raises=False, action=a.swap
    ),
    "LOAD_CONST": Spec(NOTHING, Operand.CONST, raises=False, action=a.load_const),
    "LOAD_ASSERTION_ERROR": fixed(0, 1, raises=False),
    "LOAD_BUILD_CLASS": fixed(0, 1),
}

_VARIABLES = {
    "LOAD_FAST": Spec(NOTHING, Operand.PLAIN, action=a.load_fast),
    "STORE_FAST": Spec(Effect(None, 1), Operand.PLAIN, raises=False, action=a.store_fast),
    "DELETE_FAST": Spec(NOTHING, Operand.PLAIN, action=a.delete_fast),
    "MAKE_CELL": Spec(NOTHING, Operand.CELL, raises=False, action=a.make_cell),
    "LOAD_CLOSURE": Spec(NOTHING, Operand.DEREF, action=a.load_cell),
    "LOAD_DEREF": Spec(NOTHING, Operand.DEREF, action=a.load_deref),
    "LOAD_CLASSDEREF": Spec(NOTHING, Operand.DEREF, action=a.load_classderef),
    "STORE_DEREF": Spec(Effect(None, 1), Operand.DEREF, raises=False, action=a.store_deref),
    "DELETE_DEREF": Spec(NOTHING, Operand.DEREF, action=a.delete_deref),
    "COPY_FREE_VARS": Spec(NOTHING, raises=False, action=a.copy_free_vars),
    "LOAD_GLOBAL": Spec(_load_global, Operand.NAME_SHIFTED),
    "STORE_GLOBAL": fixed(1, **NAME),
    "DELETE_GLOBAL": fixed(0, **NAME),
    "LOAD_NAME": fixed(0, 1, **NAME),
    "STORE_NAME": fixed(1, **NAME),
    "DELETE_NAME": fixed(0, **NAME),
    "SETUP_ANNOTATIONS": fixed(0),
    "IMPORT_STAR": fixed(1),
}

_OPERATIONS = {
    **group("UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT", fixed(1, 1)),
    "BINARY_OP": fixed(2, 1, **bounded(len(opcode._nb_ops))),  # type: ignore[attr-defined]
    "COMPARE_OP": fixed(2, 1, **bounded(len(opcode.cmp_op))),
    "IS_OP": fixed(2, 1, **bounded(2), raises=False),
    "CONTAINS_OP": fixed(2, 1, **bounded(2)),
    "BINARY_SUBSCR": fixed(2, 1),
    "STORE_SUBSCR": fixed(3),
    "DELETE_SUBSCR": fixed(2),
    "LOAD_ATTR": fixed(1, 1, **NAME),
    "STORE_ATTR": fixed(2, **NAME),
    "DELETE_ATTR": fixed(1, **NAME),
    "LOAD_METHOD": Spec(Effect(None, 1, (k.MAYBE, k.VALUE)), Operand.NAME),
    "IMPORT_NAME": fixed(2, 1, **NAME),
    "IMPORT_FROM": peeks(OBJECT, pushes=(k.VALUE,), **NAME),
    "PRINT_EXPR": fixed(1),
    "FORMAT_VALUE": Spec(
        lambda flags: Effect(None, 2 if flags & 4 else 1, (k.VALUE,)), Operand.RANGE, 0, 8
    ),
    "GET_ITER": makes(k.ITER),
    "GET_YIELD_FROM_ITER": makes(k.ITER),
    "GET_AITER": fixed(1, 1),
    "GET_ANEXT": peeks(OBJECT, pushes=(k.VALUE,)),
    "GET_AWAITABLE": fixed(1, 1, **bounded(3)),
    "GET_LEN": peeks(OBJECT, pushes=(k.VALUE,)),
    **group("MATCH_MAPPING MATCH_SEQUENCE", peeks(OBJECT, pushes=(k.VALUE,), raises=False)),
    "MATCH_KEYS": peeks(OBJECT, k.TUPLES, pushes=(k.VALUE,)),
    "MATCH_CLASS": peeks(OBJECT, OBJECT, k.TUPLES, pops=3, pushes=(k.VALUE,)),
}

_CONTAINERS = {
    "BUILD_TUPLE": sized(k.TUPLE, action=a.build_tuple),
    "BUILD_LIST": Spec(_build_list, Operand.COUNT),
    "BUILD_SET": sized(k.SET),
    "BUILD_MAP": sized(k.DICT, 2),
    "BUILD_STRING": sized(k.VALUE),
    "BUILD_SLICE": Spec(lambda n: Effect(None, n, (k.VALUE,)), Operand.RANGE, 2, 4),
    "BUILD_CONST_KEY_MAP": Spec(
        lambda n: Effect((*(OBJECT,) * n, k.TUPLE), n + 1),
        Operand.COUNT,
        action=a.build_const_key_map,
    ),
    "LIST_TO_TUPLE": peeks(k.LISTS, pops=1, pushes=(k.TUPLE,)),
    "LIST_APPEND": adds(k.LISTS, action=a.list_append),
    "LIST_EXTEND": adds(k.LISTS, action=a.list_extend),
    "SET_ADD": adds(k.SET),
    "SET_UPDATE": adds(k.SET),
    "MAP_ADD": adds(k.DICT, 2),
    "DICT_UPDATE": adds(k.DICT),
    "DICT_MERGE": Spec(_dict_merge, Operand.COUNT, 1),
    "UNPACK_SEQUENCE": Spec(lambda n: Effect(None, 1, (k.VALUE,) * n), Operand.COUNT),
    "UNPACK_EX": Spec(_unpack_ex, Operand.TWO_COUNTS),
}

_CALLS = {
    "KW_NAMES": Spec(NOTHING, Operand.CONST, raises=False, check=a.keyword_names),
    "PRECALL": Spec(_precall, Operand.COUNT, raises=False, check=a.precall),
    "CALL": Spec(_call, Operand.COUNT, action=a.call),
    "CALL_FUNCTION_EX": Spec(_call_ex, Operand.RANGE, 0, 2),
    "MAKE_FUNCTION": Spec(_make_function, Operand.RANGE, 0, 16, action=a.make_function),
}

_EXCEPTIONS = {
    "PUSH_EXC_INFO": peeks(k.EXC, pops=0, action=a.push_exc_info, raises=False),
    "POP_EXCEPT": peeks(k.PREV, pops=1, action=a.pop_except, raises=False),
    "CHECK_EXC_MATCH": peeks(k.EXC, OBJECT, pops=1, pushes=(k.VALUE,)),
    "CHECK_EG_MATCH": peeks(
        k.EXC | k.EXC_OR_NONE, OBJECT, pops=2, pushes=(k.EXC_OR_NONE, k.EXC_OR_NONE)
    ),
    "PREP_RERAISE_STAR": peeks(k.EXC, k.EXC_LIST, pops=2, pushes=(k.EXC_OR_NONE,)),
    "RERAISE": Spec(_reraise, Operand.COUNT, flow=Flow.STOP),
    "RAISE_VARARGS": Spec(lambda n: Effect(None, n), Operand.RANGE, 0, 3, flow=Flow.STOP),
    "BEFORE_WITH": fixed(1, 2),
    "BEFORE_ASYNC_WITH": fixed(1, 2),
    "WITH_EXCEPT_START": peeks(OBJECT, k.LASTI, k.PREV, k.EXC, pushes=(k.VALUE,)),
    "END_ASYNC_FOR": peeks(OBJECT, k.EXC, pops=2),
}

_CONTROL = {
    "RESUME": fixed(0, **bounded(4), check=a.resume),
    "RETURN_VALUE": Spec(Effect(None, 1), flow=Flow.STOP, raises=False, action=a.return_value),
    "RETURN_GENERATOR": Spec(NOTHING, action=a.return_generator),
    "YIELD_VALUE": Spec(
        Effect((OBJECT | k.WRAPPED,), 1), action=a.yield_value, check=a.followed_by("RESUME")
    ),
    "ASYNC_GEN_WRAP": Spec(Effect((OBJECT,), 0), action=a.async_gen_wrap),
    "JUMP_FORWARD": Spec(NOTHING, flow=Flow.JUMP, raises=False),
    "JUMP_BACKWARD": Spec(NOTHING, flow=Flow.JUMP, backward=True),
    "JUMP_BACKWARD_NO_INTERRUPT": Spec(NOTHING, flow=Flow.JUMP, backward=True, raises=False),
    **group("JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP", _branch(1, 0)),
    **group("POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE", _branch(1, 1)),
    **group("POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE", _branch(1, 1, True)),
    "POP_JUMP_FORWARD_IF_NONE": _none_branch(True, False),
    "POP_JUMP_BACKWARD_IF_NONE": _none_branch(True, True),
    "POP_JUMP_FORWARD_IF_NOT_NONE": _none_branch(False, False),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": _none_branch(False, True),
    "FOR_ITER": Spec(Effect((k.ITER,), 0, (k.VALUE,), 1), flow=Flow.BRANCH),
    "SEND": Spec(Effect((OBJECT, OBJECT), 1, (k.VALUE,), 2, (k.VALUE,)), flow=Flow.BRANCH),
}

TABLE = Table(
    version=(3, 11),
    specs={
        **_STACK,
        **_VARIABLES,
        **_OPERATIONS,
        **_CONTAINERS,
        **_CALLS,
        **_EXCEPTIONS,
        **_CONTROL,
    },
    prologue=frozenset({"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP", "NOP"}),
    only_prologue=frozenset({"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR"}),
    # LOAD_FAST and LOAD_CLOSURE test for NULL and raise UnboundLocalError: no unchecked reads.
)
