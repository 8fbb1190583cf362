"""What a comprehension hides while it runs in the frame around it.

Its variables share the slots of the function's own.  What those held is set aside on the operand
stack, without code where it can stay in its slot, and comes back when the comprehension ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Op
from ..domain import UNBOUND, Const, Dyn, Entry, Own, Saved, Tmp, VObj
from .registry import rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def emit_saved(ev: Evaluator, op: Op, slot: str) -> None:
    """Set aside on the residual stack what `slot` holds, if anything."""
    (value,) = ev.emit(op.name, slot, (), 1)
    ev.give(op, Entry(Tmp(value, Saved), value))


@rule("load_clear")
def load_clear(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    aval = frame.locals.get(op.arg, UNBOUND)
    frame.locals[op.arg] = UNBOUND
    if ev.observed(frame):
        emit_saved(ev, op, op.arg)
        ev.state.bound.pop(op.arg, None)
    elif isinstance(aval, Dyn) and aval.maybe and not ev.is_held(aval.slot):
        emit_saved(ev, op, aval.slot)
        ev.state.bound.pop(aval.slot, None)
    else:
        ev.give(op, Entry(aval))


@rule("load_clear_cell")
def load_clear_cell(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    cell = frame.cells[op.arg]
    if isinstance(cell, Own):
        emit_saved(ev, op, op.arg)
    else:
        frame.cells = frame.cells.with_cell(op.arg, UNBOUND)
        ev.give(op, Entry(cell))


@rule("make_cell")
def make_cell(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    cell = frame.cells[op.arg]
    depth = len(ev.state.frames) - 1
    if isinstance(cell, Own):
        ev.emit("make_cell", cell.name)
    elif isinstance(cell, Const):
        if depth > 0:
            raise ev.generic_from_here(f"a comprehension hides the free variable {op.arg}")
        name = ev.free_name(cell.obj, op.arg)
        ev.emit("make_cell", name)
        frame.cells = frame.cells.with_cell(op.arg, Own(name))
    else:
        cell = ev.new_ref(VObj("cell", (op.arg, depth), (UNBOUND,)))
        frame.cells = frame.cells.with_cell(op.arg, cell)


@rule("drop_cell")
def drop_cell(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    if isinstance(frame.cells[op.arg], Own):
        ev.emit("drop_cell", op.arg)
    else:
        frame.cells = frame.cells.with_cell(op.arg, UNBOUND)
        ev.collect()


@rule("store_cell")
def store_cell(ev: Evaluator, op: Op) -> None:
    """The cell comes back; the comprehension's variable, if it had the slot, is gone."""
    frame = ev.state.top
    ev.take(op)
    frame.locals.pop(op.arg, None)
    if ev.observed(frame):
        ev.state.bound.pop(op.arg, None)
    if isinstance(frame.cells[op.arg], Own):
        ev.collect()
        operands = ev.hand_temps()
        ev.grab()
        ev.emit("store_cell", op.arg, operands)
    else:
        (entry,) = ev.grab()
        frame.cells = frame.cells.with_cell(op.arg, entry.aval)
        ev.collect()
