"""Evaluation: a function and what is constant in, residual IR out."""

from __future__ import annotations

from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from ..errors import SpecializationError
from ..ir import Block, Function, check
from ..knowledge import Refinement
from .clean import clean
from .constants import hold_constants_in_cells
from .domain import UNBOUND, AVal, Cells, Const, Dyn, Frame, Own, VObj
from .emission import Restart
from .evaluator import Evaluator
from .guards import guard_entry
from .request import Assumption, Limits, Note, Request
from .rules import RULES
from .source import source_of

__all__ = [
    "CELL_OPS",
    "Assumption",
    "Limits",
    "Note",
    "Request",
    "Residual",
    "evaluate",
    "reevaluate",
]


#: Operations that address a cell by name.
CELL_OPS = set(
    """load_deref store_deref delete_deref load_closure load_classderef load_from_dict_or_deref
    load_clear_cell store_cell make_cell drop_cell""".split()
)

#: Operations that address a slot of the frame by the name of a local.
SLOT_OPS = set(
    "load load_check store delete delete_check clear load_clear load_clear_cell store_cell".split()
)


@dataclass(slots=True)
class Residual:
    """What evaluation gives.

    Attributes:
        fn: cleaned residual IR.
        cells: the cell behind each free variable of `fn`, in order.
        assumptions: what justifies the folded values.
        notes: decisions, for `bcspec.explain`.
        calls: calls of known functions with positional arguments that have stayed, and what is
            known of these.
    """

    fn: Function
    cells: tuple[CellType, ...]
    assumptions: list[Assumption]
    notes: list[Note]
    calls: list[tuple[Any, list[type | Refinement | None]]]


def evaluate(request: Request) -> Residual:
    """Specialise a function.

    Args:
        request: the function and what is constant.

    Returns:
        The residual function in IR form.

    Raises:
        SpecializationError: it cannot be specialised; names the reason.
        UnsupportedBytecode: its code cannot be lifted.
    """
    for _ in range(request.limits.restarts):
        evaluator = Evaluator(request, RULES)
        try:
            frame = entry_frame(evaluator)
            evaluator.run(frame)
        except Restart as restart:
            demand(request, restart)
            continue
        if evaluator.widened_now and request.limits.restarts > 1:
            request.demands.rounds += 1
            if request.demands.rounds < 6:
                continue
        return finish(evaluator)
    raise SpecializationError(
        f"{request.function.__qualname__}: gave up after {request.limits.restarts} evaluations"
    )


def demand(request: Request, restart: Restart) -> None:
    """Take note of what made an evaluation start again."""
    demands = request.demands
    if restart.kind == "real_cells":
        demands.real_cells.add(restart.demand)
        demands.widened.clear()  # a real cell is the same in every state
    elif restart.kind == "real_raises":
        demands.real_raises.add(restart.demand)
    elif restart.kind == "no_unfold":
        demands.no_unfold[restart.demand] = restart.why
    elif restart.kind == "too_big" and demands.unroll:
        demands.unroll = False
        demands.widened.clear()
    else:
        code = request.function.__code__
        raise SpecializationError(
            f"{request.function.__qualname__} ({code.co_filename}:{code.co_firstlineno}): {restart.why}"
        )


def entry_frame(ev: Evaluator) -> Frame:
    """The frame of the function itself, as its caller enters it."""
    request = ev.request
    function = request.function
    source = source_of(function.__code__)
    fn = source.fn
    real = request.demands.real_cells
    locals_: dict[str, AVal] = {}
    for name in fn.arg_names:
        if name in request.constants:
            locals_[name] = Const(request.constants[name])
        elif name in request.identical:
            locals_[name] = Const(request.identical[name])
        else:
            locals_[name] = Dyn(name, request.types.get(name) or star_type(fn, name))
            if name not in real:
                ev.state.bound[name] = False
    cells: dict[str, AVal] = dict(
        zip(fn.freevars, map(Const, function.__closure__ or ()), strict=True)
    )
    for name in fn.cellvars:
        content = locals_.pop(name, UNBOUND)
        if name in real:
            cells[name] = Own(name)
            if isinstance(content, Const):
                fill_cell(ev, name, content)
        else:
            cells[name] = ev.new_ref(VObj("cell", (name, 0), (content,)))
    ev.freevars.update(zip(fn.freevars, function.__closure__ or (), strict=True))
    ev.declared_types = {each for each in request.types.values() if isinstance(each, type)}
    for name, length in request.lengths.items():
        locals_[name] = spread_star(ev, name, length)
    return Frame(
        source, fn.blocks[0], 0, locals_, {}, Cells(cells), function.__globals__, function=function
    )


def fill_cell(ev: Evaluator, name: str, content: Const) -> None:
    """Put the constant of a fixed parameter into its real cell."""
    if not ev.blocks:
        ev.start(Block(0))
    (value,) = ev.emit_prologue("const", content.obj, (), 1)
    ev.emit_prologue("store_deref", name, (value,), 0)


def spread_star(ev: Evaluator, name: str, length: int) -> AVal:
    """``*args`` of a known length becomes a virtual tuple of slots; a guard checks the length."""
    if not ev.blocks:
        ev.start(Block(0))
    (value,) = ev.emit_prologue("load", name, (), 1)
    unpacked = ev.emit_prologue("unpack_sequence", length, (value,), length)
    slots = [f"{name}.{index}" for index in range(length)]
    ev.counter = max(ev.counter, length)  # fresh slots are numbered, too
    for slot, item in zip(slots, reversed(unpacked), strict=True):
        ev.emit_prologue("store", slot, (item,), 0)
        ev.state.bound[slot] = False
    ev.emit_prologue("delete", name, (), 0)
    del ev.state.bound[name]
    items = tuple(Dyn(slot, ev.request.types.get(slot)) for slot in slots)
    return ev.new_ref(VObj("tuple", None, items))


def star_type(fn: Function, name: str) -> type | None:
    """The exact type of ``*args`` and ``**kwargs``."""
    stars = fn.arg_names[fn.argcount + fn.kwonlyargcount :]
    if name not in stars:
        return None
    return tuple if fn.flags & 0x04 and name == stars[0] else dict


def finish(ev: Evaluator) -> Residual:
    """Put the residual blocks into a function, and tidy it."""
    request = ev.request
    fn = shell(ev)
    guard_entry(fn, request, list(ev.guards.values()))
    clean(fn, specialised=request.assume)
    cells = used_cells(fn, ev.freevars)
    hold_constants_in_cells(fn, cells)
    fn.freevars = list(cells)
    fn.varnames = local_names(fn, request)
    check(fn)
    return Residual(fn, tuple(cells.values()), list(ev.assumptions.values()), ev.notes, ev.calls)


def used_cells(fn: Function, cells: dict[str, CellType]) -> dict[str, CellType]:
    """The free variables that residual operations mention."""
    ops = (op for block in fn.blocks for op in block.ops)
    used = {op.arg for op in ops if op.name in CELL_OPS}
    return {name: cell for name, cell in cells.items() if name in used}


def shell(ev: Evaluator) -> Function:
    """A function like the generic one, without its blocks and without the fixed parameters."""
    request = ev.request
    base = source_of(request.function.__code__).fn
    fixed = set(request.constants)
    positional = base.varnames[: base.argcount]
    kwonly = base.varnames[base.argcount : base.argcount + base.kwonlyargcount]
    return Function(
        name=base.name,
        qualname=base.qualname,
        filename=base.filename,
        firstlineno=base.firstlineno,
        argcount=len([n for n in positional if n not in fixed]),
        posonlyargcount=len([n for n in positional[: base.posonlyargcount] if n not in fixed]),
        kwonlyargcount=len([n for n in kwonly if n not in fixed]),
        flags=base.flags,
        varnames=[n for n in base.arg_names if n not in fixed],
        cellvars=[n for n in base.cellvars if n in request.demands.real_cells],
        freevars=[],
        doc=base.doc,
        blocks=ev.blocks,
        prologue=base.prologue,
        code=base.code,
    )


def local_names(fn: Function, request: Request) -> list[str]:
    """Arguments first, then the other locals as the generic function orders them, then slots."""
    used: dict[str, None] = {}
    for block in fn.blocks:
        for op in block.ops:
            if op.name in SLOT_OPS:
                used[op.arg] = None
    names = list(fn.varnames)
    original = request.function.__code__.co_varnames
    names += [n for n in original if n in used and n not in names]
    return names + [n for n in used if n not in names]


def reevaluate(code: CodeType) -> Function:
    """Evaluate a code object with nothing constant and nothing assumed.

    The result behaves like `code`, whatever its globals and cells are; this is how CPython's own
    tests are used as an oracle.

    Args:
        code: any code object.

    Returns:
        Residual IR with the same free variables, in the same order.

    Raises:
        SpecializationError: it cannot be evaluated.
        UnsupportedBytecode: it cannot be lifted.
    """
    cells = tuple(CellType() for _ in code.co_freevars)
    function = FunctionType(code, {}, closure=cells)
    request = Request(function, assume=False, limits=Limits(variants=1, handler_variants=1))
    residual = evaluate(request)
    names = source_of(code).fn.freevars
    assert set(residual.fn.freevars) <= set(names), residual.fn.freevars
    residual.fn.freevars = list(names)
    return residual.fn
