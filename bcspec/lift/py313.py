"""What CPython 3.13 changes in the instructions of 3.12.

Source of the stack effects: CPython 3.13, ``Python/bytecodes.c``.

* The NULL of a callable is pushed after it.  The IR keeps it first (`sim.nulls` tells which values
  are NULL), and lowering turns the pair around again.
* Conditional jumps and UNARY_NOT want an exact bool, which TO_BOOL or a flag of COMPARE_OP makes.
  In the IR both test the truth of anything, so that conversion is part of them.
* Closures are loaded by LOAD_FAST, defaults and the like are set after MAKE_FUNCTION.
* Instructions on two locals are taken apart; lowering does not put them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import CellVar, Compare, FreeVar, Intrinsic2Op

from ..ir.ops import CLOSURE, FUNCTION_PARTS
from . import py311, py312
from .rules import simple, sized

if TYPE_CHECKING:
    from .common import Simulation

PROLOGUE = py312.PROLOGUE
STOP_ITERATION = py312.STOP_ITERATION


def _known(number: int, name: str) -> Intrinsic2Op:
    """A member of the enumeration; the `bytecode` package (0.19) lacks one."""
    try:
        return Intrinsic2Op(number)
    except ValueError:
        member = int.__new__(Intrinsic2Op, number)
        member._name_, member._value_ = name, number
        Intrinsic2Op._value2member_map_[number] = member
        return member


SET_TYPEPARAM_DEFAULT = _known(5, "INTRINSIC_SET_TYPEPARAM_DEFAULT")

INTRINSICS_2 = {**py312.INTRINSICS_2, 5: "set_typeparam_default"}

#: What takes the truth of anything in the IR.
_TESTS = ("UNARY_NOT", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")


# -- locals -------------------------------------------------------------------------------------


def _load(sim: Simulation, arg: Any) -> None:
    """A plain local, or a cell for a closure."""
    if isinstance(arg, (CellVar, FreeVar)):
        sim.op("load_closure", sim.variable(arg), 0, 1)
    elif arg in sim.fn.cellvars and arg not in sim.plain:
        sim.op("load_closure", arg, 0, 1)
    else:
        sim.op("load", py312.local_name(sim, arg), 0, 1)


def _load_fast(sim: Simulation, instr: Any) -> None:
    _load(sim, instr.arg)


def _load_load(sim: Simulation, instr: Any) -> None:
    for arg in instr.arg:
        _load(sim, arg)


def _store_load(sim: Simulation, instr: Any) -> None:
    first, second = instr.arg
    py312.store_local(sim, first)
    _load(sim, second)


def _store_store(sim: Simulation, instr: Any) -> None:
    for arg in instr.arg:
        py312.store_local(sim, arg)


# -- callables ----------------------------------------------------------------------------------


def _null(sim: Simulation) -> None:
    sim.op("null", None, 0, 1)
    sim.nulls.add(sim.stack[-1])


#: Operations before which the NULL of their result can stand, as where it comes first.
_LOADS = frozenset("load load_check load_deref load_name load_build_class".split())


def _push_null(sim: Simulation, instr: Any) -> None:
    ops = sim.block.ops
    loaded = bool(ops) and ops[-1].name in _LOADS and ops[-1].results == (sim.stack[-1],)
    _null(sim)
    if loaded:
        ops[-1], ops[-2] = ops[-2], ops[-1]


def _load_global(sim: Simulation, instr: Any) -> None:
    with_null, name = instr.arg
    if with_null:
        _null(sim)
    sim.op("load_global", name, 0, 1)
    if with_null:
        stack = sim.stack
        stack[-1], stack[-2] = stack[-2], stack[-1]


def callable_first(sim: Simulation, operands: list[Any]) -> list[Any]:
    """The operands of a call as the IR orders them."""
    function, second, *rest = operands
    return [second, function, *rest] if second in sim.nulls else operands


def _call(sim: Simulation, instr: Any) -> None:
    operands = callable_first(sim, sim.pop(instr.arg + 2))
    sim.push(sim.emit("call", (), operands, 1))


def _call_kw(sim: Simulation, instr: Any) -> None:
    """CALL_KW, whose last operand is a constant tuple of names."""
    ops = sim.block.ops
    (names,) = sim.pop(1)
    if not ops or ops[-1].name != "const" or ops[-1].results[0] is not names:
        sim.refuse("CALL_KW whose names are not a constant", instr)
    arg = ops.pop().arg
    operands = callable_first(sim, sim.pop(instr.arg + 2))
    sim.push(sim.emit("call", arg, operands, 1))


def _call_ex(sim: Simulation, instr: Any) -> None:
    flags = int(instr.arg) & 1
    operands = callable_first(sim, sim.pop(3 + flags))
    sim.push(sim.emit("call_ex", flags, operands, 1))


def _dict_merge(sim: Simulation, instr: Any) -> None:
    """The callable is named in errors; a NULL stands between it and the arguments."""
    (update,) = sim.pop(1)
    if instr.arg != 1:
        sim.refuse(f"DICT_MERGE {instr.arg}", instr)
    callable_, _, args, keywords = sim.stack[-4:]
    sim.emit("dict_merge", None, (callable_, args, keywords, update), 0)


#: For each bit of `make_function`, itself and those whose operands stand below: they come later.
_NOT_YET = {
    bit: sum((*FUNCTION_PARTS, CLOSURE)[: place + 1])
    for place, bit in enumerate((*FUNCTION_PARTS, CLOSURE))
}


def _set_function_attribute(sim: Simulation, instr: Any) -> None:
    """Taken into the operation that made the function."""
    attribute, function = sim.pop(2)
    op = sim.block.ops[-1]
    not_yet = _NOT_YET.get(instr.arg)
    if not_yet is None:
        sim.refuse(f"SET_FUNCTION_ATTRIBUTE {instr.arg}", instr)
    if op.name != "make_function" or op.results[0] is not function or op.arg & not_yet:
        sim.refuse("SET_FUNCTION_ATTRIBUTE away from its MAKE_FUNCTION", instr)
    op.arg |= instr.arg
    op.operands = (attribute, *op.operands)
    sim.push((function,))


# -- truth and text ---------------------------------------------------------------------------


def _to_bool(sim: Simulation, instr: Any) -> None:
    if sim.following_name() not in _TESTS:
        sim.op("to_bool", None, 1, 1)


def _compare(sim: Simulation, instr: Any) -> None:
    comparison = Compare(int(instr.arg) & 0b1111)
    sim.op("compare_op", py311.COMPARISONS[comparison.name], 2, 1)
    if int(instr.arg) & 16:
        _to_bool(sim, instr)


def _format_simple(sim: Simulation, instr: Any) -> None:
    """FORMAT_SIMPLE, with the conversion right before it."""
    last = sim.block.ops[-1] if sim.block.ops else None
    if last is not None and last.name == "convert_value" and last.results[0] is sim.stack[-1]:
        last.name = "format_value"
    else:
        sim.op("format_value", 0, 1, 1)


def _end_for(sim: Simulation, instr: Any) -> None:
    """END_FOR takes the value, POP_TOP the iterator: both are gone in the IR."""
    sim.take_following("POP_TOP")


_GONE = ("KW_NAMES", "LOAD_CLOSURE", "FORMAT_VALUE")

LIFT: dict[str, Any] = {
    **{name: rule for name, rule in py312.LIFT.items() if name not in _GONE},
    "LOAD_FAST": _load_fast,
    "LOAD_FAST_LOAD_FAST": _load_load,
    "STORE_FAST_LOAD_FAST": _store_load,
    "STORE_FAST_STORE_FAST": _store_store,
    "END_FOR": _end_for,
    "PUSH_NULL": _push_null,
    "LOAD_GLOBAL": _load_global,
    "CALL": _call,
    "CALL_KW": _call_kw,
    "CALL_FUNCTION_EX": _call_ex,
    "DICT_MERGE": _dict_merge,
    "MAKE_FUNCTION": simple("make_function", 1, 1, arg=lambda arg: 0),
    "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
    "TO_BOOL": _to_bool,
    "COMPARE_OP": _compare,
    "CONVERT_VALUE": simple("convert_value", 1, 1, arg=int),
    "FORMAT_SIMPLE": _format_simple,
    "FORMAT_WITH_SPEC": sized("format_value", lambda arg: 2, arg=lambda arg: 4),
    "CALL_INTRINSIC_2": py312.intrinsic_2(INTRINSICS_2),
}

JUMPS: dict[str, Any] = dict(py312.JUMPS)
