"""What CPython 3.12 changes in the instructions of 3.11.

Source of the stack effects: CPython 3.12, ``Python/bytecodes.c``.

* A loop that ends jumps past END_FOR; only generators, run in place, come to it.  END_SEND takes
  the iterator that `send` has already let go of in the IR.  Neither is an operation.
* CLEANUP_THROW finds, between the iterator and the exception, what was sent last: the IR leaves
  that slot away (see `bcspec.lift.common.kept_depth`).
* A comprehension runs in the frame around it: LOAD_FAST_AND_CLEAR sets the variables that it
  hides aside, and a cell of its own is made in the middle of the code.
* The handler around a generator's body that turns StopIteration into RuntimeError is taken off
  (`STOP_ITERATION`); lowering puts it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir import CLASH
from . import py311
from .rules import arg_of, branch, cell, simple

if TYPE_CHECKING:
    from .common import Simulation

PROLOGUE = py311.PROLOGUE

#: Operations of the handler that every generator's body has.
STOP_ITERATION = ("stopiteration_error", "reraise")


def _flagged(plain: str, method: str, pops: int) -> Any:
    """LOAD_ATTR and LOAD_SUPER_ATTR: with the flag, both slots of a callable are pushed."""

    def rule(sim: Simulation, instr: Any) -> None:
        with_null, *rest, name = instr.arg
        arg = (name, *rest) if rest else name
        sim.op(method if with_null else plain, arg, pops, 2 if with_null else 1)

    return rule


def local_name(sim: Simulation, name: str) -> str:
    """The IR's name of a plain local; that in the slot of a cell has one of its own."""
    fn = sim.fn
    if name not in fn.cellvars:
        return name
    if name + CLASH not in fn.shadows:
        fn.shadows.append(name + CLASH)
    return name + CLASH


def load_local(kind: str) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        sim.op(kind, local_name(sim, instr.arg), 0, 1)

    return rule


def _load_and_clear(sim: Simulation, instr: Any) -> None:
    """Set aside what a slot holds; a cell, unless a comprehension around has done that."""
    name = instr.arg
    if name in sim.fn.cellvars and name not in sim.plain:
        sim.op("load_clear_cell", name, 0, 1)
        sim.cells_aside.add(sim.stack[-1])
        sim.plain |= {name}
    else:
        sim.op("load_clear", local_name(sim, name), 0, 1)


def store_local(sim: Simulation, name: str) -> None:
    """STORE_FAST, which also puts back what was set aside."""
    if sim.stack and sim.stack[-1] in sim.cells_aside:
        sim.op("store_cell", name, 1, 0)
        sim.plain -= {name}
        return
    if name in sim.fn.cellvars and name not in sim.plain:
        sim.op("drop_cell", name, 0, 0)
        sim.plain |= {name}
    sim.op("store", local_name(sim, name), 1, 0)


def _store_fast(sim: Simulation, instr: Any) -> None:
    store_local(sim, instr.arg)


def _make_cell(sim: Simulation, instr: Any) -> None:
    """MAKE_CELL in the body: 3.12 may do it to a free variable that a comprehension hides."""
    name = sim.variable(instr.arg)
    sim.op("make_cell", name, 0, 0)
    sim.plain -= {name}


def _binary_slice(sim: Simulation, instr: Any) -> None:
    """``x[a:b]``: exactly a slice and a subscription."""
    sim.op("build_slice", None, 2, 1)
    sim.op("binary_subscr", None, 2, 1)


def _store_slice(sim: Simulation, instr: Any) -> None:
    sim.op("build_slice", None, 2, 1)
    sim.op("store_subscr", None, 3, 0)


def _return_const(sim: Simulation, instr: Any) -> None:
    sim.op("const", instr.arg, 0, 1)
    py311.JUMPS["RETURN_VALUE"](sim, instr)


#: Intrinsic functions, by number, that 3.11 has instructions for or the IR an operation.
INTRINSICS_1 = {
    3: "stopiteration_error",
    4: "async_gen_wrap",
    5: "unary_positive",
    6: "list_to_tuple",
    7: "typevar",
    8: "paramspec",
    9: "typevartuple",
    10: "subscript_generic",
    11: "typealias",
}
#: Those whose result is None and always dropped.
INTRINSICS_DROPPED = {1: "print_expr", 2: "import_star"}
INTRINSICS_2 = {
    1: "prep_reraise_star",
    2: "typevar_with_bound",
    3: "typevar_with_constraints",
    4: "set_function_type_params",
}


def _intrinsic_1(sim: Simulation, instr: Any) -> None:
    number = int(instr.arg)
    if number in INTRINSICS_DROPPED:
        sim.op(INTRINSICS_DROPPED[number], None, 1, 0)
        sim.op("const", None, 0, 1)
    elif number in INTRINSICS_1:
        sim.op(INTRINSICS_1[number], None, 1, 1)
    else:
        sim.refuse(f"CALL_INTRINSIC_1 {number}", instr)


def intrinsic_2(names: dict[int, str]) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        name = names.get(int(instr.arg))
        if name is None:
            sim.refuse(f"CALL_INTRINSIC_2 {int(instr.arg)}", instr)
        sim.op(name, None, 2, 1)

    return rule


def _pop_top(sim: Simulation, instr: Any) -> None:
    """POP_TOP; the None of an intrinsic function goes without a trace."""
    ops = sim.block.ops
    after_intrinsic = (
        len(ops) >= 2
        and ops[-2].name in INTRINSICS_DROPPED.values()
        and ops[-1].name == "const"
        and ops[-1].results[0] is sim.stack[-1]
    )
    if after_intrinsic:
        ops.pop()
        sim.pop(1)
    else:
        sim.op("drop", None, 1, 0)


def _cleanup_throw(sim: Simulation, instr: Any) -> None:
    """At the start of a handler the slot of the value sent is left away already."""
    if sim.index or sim.block.ops:
        (exception,) = sim.pop(1)
        sim.op("drop", None, 1, 0)
        sim.push((exception,))
    sim.op("cleanup_throw", None, 2, 1)


def nothing(sim: Simulation, instr: Any) -> None:
    """An instruction that has no counterpart in the IR."""


_GONE = """
    LOAD_METHOD PRECALL LOAD_CLASSDEREF UNARY_POSITIVE LIST_TO_TUPLE ASYNC_GEN_WRAP
    PREP_RERAISE_STAR IMPORT_STAR PRINT_EXPR
""".split()
_GONE_JUMPS = [
    name
    for name in py311.JUMPS
    if name.startswith(("JUMP_IF_", "POP_JUMP_FORWARD_", "POP_JUMP_BACKWARD_"))
]

LIFT: dict[str, Any] = {
    **{name: rule for name, rule in py311.LIFT.items() if name not in _GONE},
    "POP_TOP": _pop_top,
    "LOAD_FAST": load_local("load"),
    "LOAD_FAST_CHECK": load_local("load_check"),
    "LOAD_FAST_AND_CLEAR": _load_and_clear,
    "STORE_FAST": _store_fast,
    "MAKE_CELL": _make_cell,
    "LOAD_LOCALS": simple("load_locals", 0, 1),
    "LOAD_FROM_DICT_OR_GLOBALS": simple("load_from_dict_or_globals", 1, 1, arg=arg_of),
    "LOAD_FROM_DICT_OR_DEREF": cell("load_from_dict_or_deref", 1, 1),
    "LOAD_ATTR": _flagged("load_attr", "load_method", 1),
    "LOAD_SUPER_ATTR": _flagged("load_super_attr", "load_super_method", 3),
    "BINARY_SLICE": _binary_slice,
    "STORE_SLICE": _store_slice,
    "CALL_INTRINSIC_1": _intrinsic_1,
    "CALL_INTRINSIC_2": intrinsic_2(INTRINSICS_2),
    "YIELD_VALUE": simple("yield_value", 1, 1, arg=arg_of),
    "CLEANUP_THROW": _cleanup_throw,
    "END_FOR": nothing,
    "END_SEND": nothing,
}

JUMPS: dict[str, Any] = {
    **{name: rule for name, rule in py311.JUMPS.items() if name not in _GONE_JUMPS},
    "RETURN_CONST": _return_const,
    **{f"POP_JUMP_IF_{k.upper()}": branch(k) for k in ("true", "false", "none", "not_none")},
}
