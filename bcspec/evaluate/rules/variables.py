"""Constants, locals, cells and globals."""

from __future__ import annotations

import builtins
import sys
from types import BuiltinFunctionType, CellType, ModuleType
from typing import TYPE_CHECKING, Any

from ...ir import Op
from ..attributes import const_attribute
from ..domain import NULL, UNBOUND, AVal, Const, Dyn, Entry, Own, Ref, Saved, Tmp
from ..emission import Restart
from ..facts import label
from .registry import residual, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


@rule("const")
def const(ev: Evaluator, op: Op) -> None:
    ev.give(op, ev.const_entry(op.arg))


@rule("load_common_constant")
def load_common_constant(ev: Evaluator, op: Op) -> None:
    """A builtin as the interpreter found it when it started, whatever its name stands for since."""
    obj = getattr(builtins, op.arg, None)
    original = type(obj) in (type, BuiltinFunctionType) and obj.__module__ == "builtins"
    if original and ev.request.assume:
        ev.give(op, ev.const_entry(obj))
    else:
        residual(ev, op)


@rule("null")
def null(ev: Evaluator, op: Op) -> None:
    (value,) = ev.emit("null", None, (), 1)
    ev.give(op, Entry(NULL, value))


@rule("nop")
def nop(ev: Evaluator, op: Op) -> None:
    if len(ev.state.frames) == 1:
        ev.emit("nop", None)


@rule("copy")
def copy(ev: Evaluator, op: Op) -> None:
    entry = ev.state.top.env[op.operands[0]]
    if isinstance(entry.aval, Tmp):
        (value,) = ev.emit("copy", None, (entry.aval.value,), 1)
        ev.give(op, Entry(Tmp(value, entry.aval.type), value))
    else:
        if isinstance(entry.aval, Ref):
            ev.settle(entry.aval)
        ev.give(op, Entry(entry.aval))


@rule("drop")
def drop(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    ev.discard_hand()


# -- locals --------------------------------------------------------------------------


def frame_depth(ev: Evaluator) -> int:
    return len(ev.state.frames) - 1


def home_slot(ev: Evaluator, name: str) -> str:
    """The slot in which a local of the top frame lives when nothing speaks against it."""
    depth = frame_depth(ev)
    return name if depth == 0 else f"{name}@{depth}"


def free_slot(ev: Evaluator, name: str) -> str:
    """`home_slot`, or another one where that still holds something else."""
    slot = home_slot(ev, name)
    if slot in ev.state.bound and ev.is_held(slot):
        return ev.fresh_slot(name)
    return slot


@rule("load load_check")
def load(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    name = op.arg
    aval = frame.locals.get(name, UNBOUND)
    if ev.observed(frame):
        certain = op.name == "load"
        loaded = ev.emit("load", name, (), 1) if certain else ev.emit_raising(op.name, name, [], 1)
        ev.give(op, Entry(Tmp(loaded[0]), loaded[0]))
    elif aval is UNBOUND:
        load_unbound(ev, op)
    elif isinstance(aval, Dyn) and aval.maybe:
        load_maybe(ev, op, aval)
    elif isinstance(aval, Ref):
        ev.give(op, Entry(aval))
    else:
        (value,) = ev.load(aval)
        ev.give(op, Entry(aval, value))


def load_unbound(ev: Evaluator, op: Op) -> None:
    """An UnboundLocalError that is certain: it has to name the variable as the source does."""
    if frame_depth(ev) > 0 or op.arg in ev.state.bound:
        raise ev.generic_from_here(f"{op.arg} is read before it is bound")
    (value,) = ev.emit_raising("load_check", op.arg, [], 1)
    ev.give(op, Entry(Tmp(value), value))


def load_maybe(ev: Evaluator, op: Op, aval: Dyn) -> None:
    if frame_depth(ev) > 0 or aval.slot != op.arg:
        raise ev.generic_from_here(f"{op.arg} may be read before it is bound")
    (value,) = ev.emit_raising("load_check", op.arg, [], 1)
    bound = Dyn(aval.slot, aval.type)
    ev.state.rewrite(lambda a: bound if isinstance(a, Dyn) and a.slot == bound.slot else a)
    ev.state.bound[aval.slot] = False
    ev.give(op, Entry(bound, value))


@rule("store")
def store(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    name = op.arg
    ev.take(op)
    if ev.observed(frame) or (name in frame.source.unread and not ev.request.assume):
        ev.realise_hand()
        (entry,) = ev.grab()
        ev.store(name, ev.value_of(entry))
        frame.locals[name] = Dyn(name)
        return
    (entry,) = ev.grab()
    old = frame.locals.get(name, UNBOUND)
    frame.locals[name] = UNBOUND
    frame.locals[name] = local_value(ev, entry, name)
    if isinstance(old, (Dyn, Ref)):
        ev.collect()


def local_value(ev: Evaluator, entry: Entry, name: str) -> AVal:
    """What a local of the top frame is bound to when `entry` is stored there."""
    if isinstance(entry.aval, Tmp):
        slot = free_slot(ev, name)
        ev.store(slot, entry.aval.value)
        if entry.aval.type is Saved:
            ev.state.bound[slot] = True
            return Dyn(slot, None, maybe=True)
        return Dyn(slot, entry.aval.type)
    return ev.to_slot(entry, name)


@rule("delete delete_check")
def delete(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    name = op.arg
    aval = frame.locals.get(name, UNBOUND)
    uncertain = aval is UNBOUND or (isinstance(aval, Dyn) and aval.maybe)
    if ev.observed(frame) or (uncertain and frame_depth(ev) == 0 and home_is_own(ev, name, aval)):
        ev.emit_raising("delete_check", name, [], 0)
        ev.state.bound.pop(name, None)
    elif uncertain:
        raise ev.generic_from_here(f"{name} may be deleted before it is bound")
    frame.locals[name] = UNBOUND
    ev.collect()


def home_is_own(ev: Evaluator, name: str, aval: AVal) -> bool:
    """Whether the slot called `name` holds this variable and nothing else."""
    return name not in ev.state.bound or (isinstance(aval, Dyn) and aval.slot == name)


# -- cells ---------------------------------------------------------------------------


def cell_content(ev: Evaluator, cell: CellType, name: str) -> AVal | None:
    """The content of an existing cell if it is proved or declared constant."""
    reason = ev.constant_cell(ev.state.top, name, cell)
    if reason is None:
        return None
    try:
        content = cell.cell_contents
    except ValueError:  # the cell is empty
        return None
    ev.assume(reason[0], cell, name, content, reason[1])
    knowledge = ev.request.knowledge
    deep = (label(ev.state.top), name) in knowledge.deep_cells or id(
        content
    ) in knowledge.frozen_objects
    return Const(content, deep)


@rule("load_closure")
def load_closure(ev: Evaluator, op: Op) -> None:
    cell = ev.state.top.cells[op.arg]
    if isinstance(cell, Own):
        (value,) = ev.load(cell)
        # The name of a real cell that is replaced does not stand for one cell for ever.
        remade = cell.name in ev.state.top.source.remade
        ev.give(op, Entry(Tmp(value, CellType) if remade else cell, value))
    elif isinstance(cell, Const) and len(ev.state.frames) == 1:
        (value,) = ev.emit("load_closure", ev.free_name(cell.obj, op.arg), (), 1)
        ev.give(op, Entry(cell, value))
    else:
        ev.give(op, Entry(cell))


@rule("load_deref")
def load_deref(ev: Evaluator, op: Op) -> None:
    cell = ev.state.top.cells[op.arg]
    if isinstance(cell, Const):
        content = cell_content(ev, cell.obj, op.arg)
        if content is not None:
            ev.give(op, Entry(content, ev.load(content)[0]))
        else:
            through_cell(ev, op, ev.free_name(cell.obj, op.arg))
    elif isinstance(cell, Ref):
        load_virtual_cell(ev, op, cell)
    elif isinstance(cell, Own):
        through_cell(ev, op, cell.name)
    else:
        access_cell_object(ev, op, "load_attr", cell)


def load_virtual_cell(ev: Evaluator, op: Op, cell: Ref) -> None:
    (content,) = ev.state.heap[cell.id].kids
    if content is UNBOUND or (isinstance(content, Dyn) and content.maybe):
        raise real_cell(ev, op.arg, cell)
    if isinstance(content, Ref):
        ev.give(op, Entry(content))
    else:
        (value,) = ev.load(content)
        ev.give(op, Entry(content, value))


def real_cell(ev: Evaluator, name: str, cell: Ref) -> Restart:
    """What to raise when a variable may be unbound and the cell has to find out by itself."""
    own_name, depth = ev.state.heap[cell.id].tag
    if depth == 0:
        return Restart("real_cells", own_name, f"{own_name} may be read before it is bound")
    return ev.generic_from_here(f"{name} may be read before it is bound")


def through_cell(ev: Evaluator, op: Op, name: str) -> None:
    """Read, write or delete through a cell or free variable of the residual function."""
    ev.take(op)
    ev.realise_hand()
    results = ev.emit_raising(op.name, name, [], len(op.results))
    ev.give(op, *(Entry(Tmp(v), v) for v in results))


def access_cell_object(ev: Evaluator, op: Op, name: str, cell: AVal) -> None:
    """Go through ``cell_contents`` of a cell that an unfolded function had to allocate."""
    ev.take(op)
    ev.state.hand.append(Entry(cell))
    ev.realise_hand()
    results = ev.emit_raising(name, "cell_contents", [], len(op.results))
    ev.give(op, *(Entry(Tmp(v), v) for v in results))


@rule("store_deref")
def store_deref(ev: Evaluator, op: Op) -> None:
    cell = ev.state.top.cells[op.arg]
    if isinstance(cell, Ref):
        ev.take(op)
        (entry,) = ev.grab()
        content = ev.to_slot(entry, op.arg)
        obj = ev.state.heap[cell.id]
        ev.state.heap[cell.id] = obj.with_kids((content,))
        ev.collect()
    elif isinstance(cell, Const):
        through_cell(ev, op, ev.free_name(cell.obj, op.arg))
    elif isinstance(cell, Own):
        through_cell(ev, op, cell.name)
    else:
        access_cell_object(ev, op, "store_attr", cell)


@rule("delete_deref")
def delete_deref(ev: Evaluator, op: Op) -> None:
    cell = ev.state.top.cells[op.arg]
    if isinstance(cell, Ref):
        (content,) = ev.state.heap[cell.id].kids
        if content is UNBOUND or (isinstance(content, Dyn) and content.maybe):
            raise real_cell(ev, op.arg, cell)
        ev.state.heap[cell.id] = ev.state.heap[cell.id].with_kids((UNBOUND,))
        ev.collect()
    elif isinstance(cell, Const):
        through_cell(ev, op, ev.free_name(cell.obj, op.arg))
    elif isinstance(cell, Own):
        through_cell(ev, op, cell.name)
    else:
        raise ev.generic_from_here(f"the cell of {op.arg} has escaped")


@rule("load_classderef")
def load_classderef(ev: Evaluator, op: Op) -> None:
    """Class bodies look into their namespace first; only the function itself may be one."""
    cell = ev.state.top.cells[op.arg]
    if isinstance(cell, Const):
        through_cell(ev, op, ev.free_name(cell.obj, op.arg))
    elif isinstance(cell, Ref):
        raise real_cell(ev, op.arg, cell)
    else:
        residual(ev, op)


# -- globals -------------------------------------------------------------------------


@rule("load_global")
def load_global(ev: Evaluator, op: Op) -> None:
    found = ev.global_constant(ev.state.top.globals, op.arg)
    if found is not None:
        ev.give(op, ev.const_entry(found.obj) if not found.deep else Entry(found))
    elif ev.state.top.globals is ev.state.frames[0].globals:
        residual(ev, op)
    else:
        foreign_global(ev, op)


def foreign_global(ev: Evaluator, op: Op) -> None:
    """Read a global of another module: its dictionary is a constant."""
    namespace: Any = ev.state.top.globals
    if op.arg not in namespace:
        namespace = vars(builtins)
        if op.arg not in namespace:
            raise ev.generic_from_here(f"the global {op.arg} does not exist")
    ev.state.hand += [Entry(Const(namespace)), Entry(Const(op.arg))]
    ev.realise_hand()
    (value,) = ev.emit_raising("binary_subscr", None, [], 1)
    ev.give(op, Entry(Tmp(value), value))


@rule("store_global delete_global")
def store_global(ev: Evaluator, op: Op) -> None:
    if ev.state.top.globals is not ev.state.frames[0].globals:
        raise ev.generic_from_here(f"it binds the global {op.arg} of another module")
    residual(ev, op)


@rule("import_name")
def import_name(ev: Evaluator, op: Op) -> None:
    level, fromlist = (ev.state.top.env[value].aval for value in op.operands)
    absolute = isinstance(level, Const) and level.obj == 0
    module = imported(ev, op.arg) if absolute and isinstance(fromlist, Const) else None
    if module is not None:
        assert isinstance(fromlist, Const)
        top = sys.modules[op.arg.partition(".")[0]]
        ev.take(op)
        ev.discard_hand()
        ev.give(op, ev.const_entry(module if fromlist.obj else top))
        return
    if not absolute and ev.state.top.globals is not ev.state.frames[0].globals:
        raise ev.generic_from_here("a relative import in another module")
    residual(ev, op)


def imported(ev: Evaluator, name: str) -> ModuleType | None:
    """A module that has been imported and is declared to stay as it is."""
    module = sys.modules.get(name)
    reason = ev.request.knowledge.stable_modules.get(name)
    if reason is None or not ev.request.assume or not isinstance(module, ModuleType):
        return None
    ev.assume("declared", module, "__name__", name, reason)
    return module


@rule("import_from")
def import_from(ev: Evaluator, op: Op) -> None:
    module = ev.state.top.env[op.operands[0]].aval
    found = const_attribute(ev, module, op.arg) if isinstance(module, Const) else None
    if isinstance(found, Const):
        ev.give(op, ev.const_entry(found.obj))
    else:
        residual(ev, op)
