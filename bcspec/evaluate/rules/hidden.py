"""What a comprehension hides while it runs in the frame around it.

Its variables share the slots of the function's own.  What those held is set aside on the operand
stack, without code where it can stay in its slot, and comes back when the comprehension ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Op
from ..domain import UNBOUND, Const, Entry, Own, Tmp, VObj
from .registry import rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def emit_saved(ev: Evaluator, op: Op) -> None:
    (value,) = ev.emit(op.name, op.arg, (), 1)
    ev.give(op, Entry(Tmp(value), value))


@rule("load_clear")
def load_clear(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    aval = frame.locals.get(op.arg, UNBOUND)
    frame.locals[op.arg] = UNBOUND
    if ev.observed(frame):
        emit_saved(ev, op)
        ev.state.bound.pop(op.arg, None)
    else:
        ev.give(op, Entry(aval))


@rule("load_clear_cell")
def load_clear_cell(ev: Evaluator, op: Op) -> None:
    cells = ev.state.top.cells
    cell = cells[op.arg]
    if isinstance(cell, Own):
        emit_saved(ev, op)
    else:
        cells[op.arg] = UNBOUND
        ev.give(op, Entry(cell))


@rule("make_cell")
def make_cell(ev: Evaluator, op: Op) -> None:
    cells = ev.state.top.cells
    if isinstance(cells[op.arg], Own):
        ev.emit("make_cell", op.arg)
    elif isinstance(cells[op.arg], Const):
        raise ev.generic_from_here(f"a comprehension hides the free variable {op.arg}")
    else:
        depth = len(ev.state.frames) - 1
        cells[op.arg] = ev.new_ref(VObj("cell", (op.arg, depth), (UNBOUND,)))


@rule("drop_cell")
def drop_cell(ev: Evaluator, op: Op) -> None:
    cells = ev.state.top.cells
    if isinstance(cells[op.arg], Own):
        ev.emit("drop_cell", op.arg)
    else:
        cells[op.arg] = UNBOUND
        ev.collect()


@rule("store_cell")
def store_cell(ev: Evaluator, op: Op) -> None:
    """The cell comes back; the comprehension's variable, if it had the slot, is gone."""
    frame = ev.state.top
    cells = frame.cells
    ev.take(op)
    frame.locals.pop(op.arg, None)
    if ev.observed(frame):
        ev.state.bound.pop(op.arg, None)
    if isinstance(cells[op.arg], Own):
        ev.collect()
        operands = ev.hand_temps()
        ev.grab()
        ev.emit("store_cell", op.arg, operands)
    else:
        (entry,) = ev.grab()
        cells[op.arg] = entry.aval
        ev.collect()
