"""CPython 3.11.

Source of the effects: the interpreter loop of 3.11 (``Python/ceval.c``), read for what each
instruction takes, leaves, and trusts without a check.
"""

from __future__ import annotations

import opcode
from typing import TypedDict, Unpack

from . import actions as a
from . import kinds as k
from .model import Action, Effect, Flow, Operand, Spec, StaticCheck, Table

_O = k.OBJECT
_CALLABLE = k.OBJECT | k.ITERATES


class _Options(TypedDict, total=False):
    """Fields of `Spec` that the helpers below pass on."""

    operand: Operand
    lowest: int
    limit: int
    flow: Flow
    raises: bool
    action: Action
    check: StaticCheck


class _Range(TypedDict):
    """The fields of an argument with bounds."""

    operand: Operand
    lowest: int
    limit: int


class _Named(TypedDict):
    """The field of an argument that indexes names."""

    operand: Operand


def _fixed(pops: int, pushes: int = 0, **options: Unpack[_Options]) -> Spec:
    """Takes plain objects, leaves plain objects."""
    return Spec(Effect(None, pops, (k.VALUE,) * pushes), **options)


def _makes(kind: int, pops: int = 1, **options: Unpack[_Options]) -> Spec:
    """Takes plain objects, leaves one of a known kind."""
    return Spec(Effect(None, pops, (kind,)), **options)


def _peeks(
    *reads: int, pops: int = 0, pushes: tuple[int, ...] = (), **options: Unpack[_Options]
) -> Spec:
    """Requires kinds of the topmost slots, bottom first; takes only `pops` of them."""
    return Spec(Effect(reads, pops, pushes), **options)


def _sized(kind: int, per_item: int = 1, **options: Unpack[_Options]) -> Spec:
    """Builds from as many objects as the argument says."""
    options["operand"] = Operand.COUNT
    return Spec(lambda count: Effect(None, per_item * count, (kind,)), **options)


def _adds(container: int, items: int = 1, **options: Unpack[_Options]) -> Spec:
    """Adds the topmost items to a container `arg` slots below them."""

    def effect(depth: int) -> Effect:
        between = (k.ANY,) * (depth - 1)
        return Effect((container, *between, *(_O,) * items), items)

    options.update({"operand": Operand.COUNT, "lowest": 1})
    return Spec(effect, **options)


def _dict_merge(depth: int) -> Effect:
    """Like `_adds`; the callable two slots below the dict is named in errors."""
    return Effect((_O, k.ANY, k.DICT, *(k.ANY,) * (depth - 1), _O), 1)


def _call(count: int) -> Effect:
    """NULL or a method, a callable or its first argument, then arguments."""
    return Effect((k.ANY, _CALLABLE, *(_O,) * count), count + 2)


def _precall(count: int) -> Effect:
    """Changes only the two slots that the CALL right after it takes."""
    return Effect((k.ANY, _CALLABLE, *(_O,) * count), 0)


def _call_ex(flags: int) -> Effect:
    """The slot under the callable is overwritten without being released."""
    operands = 2 + (flags & 1)
    return Effect((k.NULL, *(_O,) * operands), operands + 1, (k.VALUE,))


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
    effect = Effect((_O,), pops, (), taken_pops)
    return Spec(effect, flow=Flow.BRANCH, backward=backward)


def _none_branch(when_none: bool, backward: bool) -> Spec:
    return Spec(
        Effect((_O,), 1),
        flow=Flow.SPLIT,
        backward=backward,
        raises=False,
        action=a.none_test(when_none),
    )


def _range(limit: int, lowest: int = 0) -> _Range:
    return {"operand": Operand.RANGE, "lowest": lowest, "limit": limit}


def _group(names: str, spec: Spec) -> dict[str, Spec]:
    return dict.fromkeys(names.split(), spec)


_NAME: _Named = {"operand": Operand.NAME}
_NOTHING = Effect(None, 0)

_STACK = {
    "NOP": _fixed(0, raises=False),
    "POP_TOP": _fixed(1, raises=False),
    "PUSH_NULL": _makes(k.NULL, 0, raises=False),
    "COPY": Spec(
        lambda depth: Effect((_O, *(k.ANY,) * (depth - 1)), 0),
        Operand.COUNT,
        1,
        raises=False,
        action=a.copy,
    ),
    "SWAP": Spec(
        lambda depth: Effect((k.ANY,) * depth, 0), Operand.COUNT, 2, raises=False, action=a.swap
    ),
    "LOAD_CONST": Spec(_NOTHING, Operand.CONST, raises=False, action=a.load_const),
    "LOAD_ASSERTION_ERROR": _fixed(0, 1, raises=False),
    "LOAD_BUILD_CLASS": _fixed(0, 1),
}

_VARIABLES = {
    "LOAD_FAST": Spec(_NOTHING, Operand.PLAIN, action=a.load_fast),
    "STORE_FAST": Spec(Effect(None, 1), Operand.PLAIN, raises=False, action=a.store_fast),
    "DELETE_FAST": Spec(_NOTHING, Operand.PLAIN, action=a.delete_fast),
    "MAKE_CELL": Spec(_NOTHING, Operand.CELL, raises=False, action=a.make_cell),
    "LOAD_CLOSURE": Spec(_NOTHING, Operand.DEREF, action=a.load_cell),
    "LOAD_DEREF": Spec(_NOTHING, Operand.DEREF, action=a.load_deref),
    "LOAD_CLASSDEREF": Spec(_NOTHING, Operand.DEREF, action=a.load_classderef),
    "STORE_DEREF": Spec(Effect(None, 1), Operand.DEREF, raises=False, action=a.store_deref),
    "DELETE_DEREF": Spec(_NOTHING, Operand.DEREF, action=a.delete_deref),
    "COPY_FREE_VARS": Spec(_NOTHING, raises=False, action=a.copy_free_vars),
    "LOAD_GLOBAL": Spec(_load_global, Operand.NAME_SHIFTED),
    "STORE_GLOBAL": _fixed(1, **_NAME),
    "DELETE_GLOBAL": _fixed(0, **_NAME),
    "LOAD_NAME": _fixed(0, 1, **_NAME),
    "STORE_NAME": _fixed(1, **_NAME),
    "DELETE_NAME": _fixed(0, **_NAME),
    "SETUP_ANNOTATIONS": _fixed(0),
    "IMPORT_STAR": _fixed(1),
}

_OPERATIONS = {
    **_group("UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT", _fixed(1, 1)),
    "BINARY_OP": _fixed(2, 1, **_range(len(opcode._nb_ops))),  # type: ignore[attr-defined]
    "COMPARE_OP": _fixed(2, 1, **_range(len(opcode.cmp_op))),
    "IS_OP": _fixed(2, 1, **_range(2), raises=False),
    "CONTAINS_OP": _fixed(2, 1, **_range(2)),
    "BINARY_SUBSCR": _fixed(2, 1),
    "STORE_SUBSCR": _fixed(3),
    "DELETE_SUBSCR": _fixed(2),
    "LOAD_ATTR": _fixed(1, 1, **_NAME),
    "STORE_ATTR": _fixed(2, **_NAME),
    "DELETE_ATTR": _fixed(1, **_NAME),
    "LOAD_METHOD": Spec(Effect(None, 1, (k.MAYBE, k.VALUE)), Operand.NAME),
    "IMPORT_NAME": _fixed(2, 1, **_NAME),
    "IMPORT_FROM": _peeks(_O, pushes=(k.VALUE,), **_NAME),
    "PRINT_EXPR": _fixed(1),
    "FORMAT_VALUE": Spec(
        lambda flags: Effect(None, 2 if flags & 4 else 1, (k.VALUE,)), Operand.RANGE, 0, 8
    ),
    "GET_ITER": _makes(k.ITER),
    "GET_YIELD_FROM_ITER": _makes(k.ITER),
    "GET_AITER": _fixed(1, 1),
    "GET_ANEXT": _peeks(_O, pushes=(k.VALUE,)),
    "GET_AWAITABLE": _fixed(1, 1, **_range(3)),
    "GET_LEN": _peeks(_O, pushes=(k.VALUE,)),
    **_group("MATCH_MAPPING MATCH_SEQUENCE", _peeks(_O, pushes=(k.VALUE,), raises=False)),
    "MATCH_KEYS": _peeks(_O, k.TUPLES, pushes=(k.VALUE,)),
    "MATCH_CLASS": _peeks(_O, _O, k.TUPLES, pops=3, pushes=(k.VALUE,)),
}

_CONTAINERS = {
    "BUILD_TUPLE": _sized(k.TUPLE, action=a.build_tuple),
    "BUILD_LIST": Spec(_build_list, Operand.COUNT),
    "BUILD_SET": _sized(k.SET),
    "BUILD_MAP": _sized(k.DICT, 2),
    "BUILD_STRING": _sized(k.VALUE),
    "BUILD_SLICE": Spec(lambda n: Effect(None, n, (k.VALUE,)), Operand.RANGE, 2, 4),
    "BUILD_CONST_KEY_MAP": Spec(
        lambda n: Effect((*(_O,) * n, k.TUPLE), n + 1),
        Operand.COUNT,
        action=a.build_const_key_map,
    ),
    "LIST_TO_TUPLE": _peeks(k.LISTS, pops=1, pushes=(k.TUPLE,)),
    "LIST_APPEND": _adds(k.LISTS, action=a.list_append),
    "LIST_EXTEND": _adds(k.LISTS, action=a.list_extend),
    "SET_ADD": _adds(k.SET),
    "SET_UPDATE": _adds(k.SET),
    "MAP_ADD": _adds(k.DICT, 2),
    "DICT_UPDATE": _adds(k.DICT),
    "DICT_MERGE": Spec(_dict_merge, Operand.COUNT, 1),
    "UNPACK_SEQUENCE": Spec(lambda n: Effect(None, 1, (k.VALUE,) * n), Operand.COUNT),
    "UNPACK_EX": Spec(_unpack_ex, Operand.TWO_COUNTS),
}

_CALLS = {
    "KW_NAMES": Spec(_NOTHING, Operand.CONST, raises=False, check=a.keyword_names),
    "PRECALL": Spec(_precall, Operand.COUNT, raises=False, check=a.precall),
    "CALL": Spec(_call, Operand.COUNT, action=a.call),
    "CALL_FUNCTION_EX": Spec(_call_ex, Operand.RANGE, 0, 2),
    "MAKE_FUNCTION": Spec(_make_function, Operand.RANGE, 0, 16, action=a.make_function),
}

_EXCEPTIONS = {
    "PUSH_EXC_INFO": _peeks(k.EXC, pops=0, action=a.push_exc_info, raises=False),
    "POP_EXCEPT": _peeks(k.PREV, pops=1, action=a.pop_except, raises=False),
    "CHECK_EXC_MATCH": _peeks(k.EXC, _O, pops=1, pushes=(k.VALUE,)),
    "CHECK_EG_MATCH": _peeks(
        k.EXC | k.EXC_OR_NONE, _O, pops=2, pushes=(k.EXC_OR_NONE, k.EXC_OR_NONE)
    ),
    "PREP_RERAISE_STAR": _peeks(k.EXC, k.EXC_LIST, pops=2, pushes=(k.EXC_OR_NONE,)),
    "RERAISE": Spec(_reraise, Operand.COUNT, flow=Flow.STOP),
    "RAISE_VARARGS": Spec(lambda n: Effect(None, n), Operand.RANGE, 0, 3, flow=Flow.STOP),
    "BEFORE_WITH": _fixed(1, 2),
    "BEFORE_ASYNC_WITH": _fixed(1, 2),
    "WITH_EXCEPT_START": _peeks(_O, k.LASTI, k.PREV, k.EXC, pushes=(k.VALUE,)),
    "END_ASYNC_FOR": _peeks(_O, k.EXC, pops=2),
}

_CONTROL = {
    "RESUME": _fixed(0, **_range(4), check=a.resume),
    "RETURN_VALUE": Spec(Effect(None, 1), flow=Flow.STOP, raises=False, action=a.return_value),
    "RETURN_GENERATOR": Spec(_NOTHING, action=a.return_generator),
    "YIELD_VALUE": Spec(
        Effect((_O | k.WRAPPED,), 1), action=a.yield_value, check=a.followed_by("RESUME")
    ),
    "ASYNC_GEN_WRAP": Spec(Effect((_O,), 0), action=a.async_gen_wrap),
    "JUMP_FORWARD": Spec(_NOTHING, flow=Flow.JUMP, raises=False),
    "JUMP_BACKWARD": Spec(_NOTHING, flow=Flow.JUMP, backward=True),
    "JUMP_BACKWARD_NO_INTERRUPT": Spec(_NOTHING, flow=Flow.JUMP, backward=True, raises=False),
    **_group("JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP", _branch(1, 0)),
    **_group("POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE", _branch(1, 1)),
    **_group("POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE", _branch(1, 1, True)),
    "POP_JUMP_FORWARD_IF_NONE": _none_branch(True, False),
    "POP_JUMP_BACKWARD_IF_NONE": _none_branch(True, True),
    "POP_JUMP_FORWARD_IF_NOT_NONE": _none_branch(False, False),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": _none_branch(False, True),
    "FOR_ITER": Spec(Effect((k.ITER,), 0, (k.VALUE,), 1), flow=Flow.BRANCH),
    "SEND": Spec(Effect((_O, _O), 1, (k.VALUE,), 2, (k.VALUE,)), flow=Flow.BRANCH),
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
