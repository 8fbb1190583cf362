"""What CPython 3.14 changes in the instructions of 3.13.

Source of the stack effects: CPython 3.14, ``Python/bytecodes.c``.

* A local that outlives its use is loaded as a borrowed reference.  In the IR every reference is
  owned; lowering never borrows, so it need not prove that the local stays.
* `with` looks `__exit__` and `__enter__` up by LOAD_SPECIAL, in this order, and calls them as any
  method.  The exit method is two values, the lower one callable, the upper one NULL or the manager.
* CALL_FUNCTION_EX always has a place for keywords, which may hold NULL.
* ``a[b]`` is a BINARY_OP, small integers have an instruction, returning a constant has none.
* `all`, `any` and `tuple` over a generator expression test whether the name is the builtin's.
* What a loop leaves behind goes by POP_ITER.  NOT_TAKEN and the argument of END_ASYNC_FOR only tell
  monitoring where a branch went; lowering writes them again.
"""

from __future__ import annotations

import opcode
from typing import TYPE_CHECKING, Any

import bytecode.instr as encoding

from . import py311, py312, py313
from .rules import simple

if TYPE_CHECKING:
    from .common import Simulation

PROLOGUE = py313.PROLOGUE
STOP_ITERATION = py313.STOP_ITERATION

#: What LOAD_COMMON_CONSTANT pushes, by its argument; the IR has a name for each.
COMMON_CONSTANTS = ("AssertionError", "NotImplementedError", "tuple", "all", "any")

#: The number of BINARY_OP that stands for ``a[b]``.
SUBSCRIPT = 26

#: What LOAD_SPECIAL looks up, by its argument.
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def _take_interpolations_as_numbers() -> None:
    """The `bytecode` package (0.19) can neither read nor write all arguments of this instruction."""
    number = opcode.opmap.get("BUILD_INTERPOLATION")
    if number is not None:
        encoding.FORMAT_VALUE_OPS.discard(number)
        encoding.BITFLAG_OPCODES.discard(number)


_take_interpolations_as_numbers()


def _common_constant(sim: Simulation, instr: Any) -> None:
    name = COMMON_CONSTANTS[int(instr.arg)]
    if name == "AssertionError":
        sim.op("load_assertion_error", None, 0, 1)
    else:
        sim.op("load_common_constant", name, 0, 1)


def _binary_op(sim: Simulation, instr: Any) -> None:
    if instr.arg == SUBSCRIPT:
        sim.op("binary_subscr", None, 2, 1)
    else:
        py313.LIFT["BINARY_OP"](sim, instr)


def _call_ex(sim: Simulation, instr: Any) -> None:
    """A NULL that stands for no keywords is not in the IR."""
    *operands, keywords = sim.pop(4)
    if keywords in sim.nulls:
        ops = sim.block.ops
        made = next((op for op in reversed(ops) if op.results == (keywords,)), None)
        if made is None:
            sim.refuse("CALL_FUNCTION_EX away from its PUSH_NULL", instr)
        ops.remove(made)
    else:
        operands.append(keywords)
    flags = len(operands) - 3
    sim.push(sim.emit("call_ex", flags, py313.callable_first(sim, operands), 1))


def _end_for(sim: Simulation, instr: Any) -> None:
    """END_FOR takes the value, POP_ITER the iterator: both are gone in the IR."""
    sim.take_following("POP_ITER")


def _interpolation(sim: Simulation, instr: Any) -> None:
    """The flags are kept as they are; the lowest bit says that a format is given."""
    flags = instr.arg
    if not isinstance(flags, int):
        sim.refuse(f"BUILD_INTERPOLATION {flags!r}", instr)
    sim.op("build_interpolation", flags, 2 + (flags & 1), 1)


_GONE = """
    BEFORE_WITH BEFORE_ASYNC_WITH BINARY_SUBSCR BUILD_CONST_KEY_MAP LOAD_ASSERTION_ERROR
""".split()

LIFT: dict[str, Any] = {
    **{name: rule for name, rule in py313.LIFT.items() if name not in _GONE},
    "LOAD_FAST_BORROW": py313.LIFT["LOAD_FAST"],
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": py313.LIFT["LOAD_FAST_LOAD_FAST"],
    "LOAD_SMALL_INT": simple("const", 0, 1, arg=int),
    "LOAD_COMMON_CONSTANT": _common_constant,
    "LOAD_SPECIAL": simple("load_special", 1, 2, arg=lambda arg: SPECIAL_METHODS[int(arg)]),
    "WITH_EXCEPT_START": simple("with_except_start", 5, 1, 5),
    "BINARY_OP": _binary_op,
    "CALL_FUNCTION_EX": _call_ex,
    "END_FOR": _end_for,
    "POP_ITER": py311.LIFT["POP_TOP"],
    "NOT_TAKEN": py312.nothing,
    "BUILD_INTERPOLATION": _interpolation,
    "BUILD_TEMPLATE": simple("build_template", 2, 1),
}

JUMPS: dict[str, Any] = {k: rule for k, rule in py313.JUMPS.items() if k != "RETURN_CONST"}
