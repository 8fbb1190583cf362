"""Building the residual function object, and taking it back when an assumption breaks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from importlib import import_module
from types import CellType, CodeType, FunctionType
from typing import Any

from .evaluate import CELL_OPS, Assumption, Note, Request, Residual
from .ir import GENERATORS, Block, Function
from .lift import lift
from .lower import lower
from .report.source import residual_source
from .verify import verify

log = logging.getLogger("bcspec")

#: The free variable through which a residual function reaches the generic one.
GENERIC = ".generic"


@dataclass(slots=True)
class Record:
    """What is remembered of a residual function, for as long as it lives.

    Attributes:
        generic: the function it was made from.
        source: the residual function as text; keeping its IR would cost far more.
        assumptions: what it relies on.
        notes: decisions of the evaluator.
        valid: False once an assumption has broken and it runs the generic code.
        again: specialises the generic function once more after that; None to leave it generic.
    """

    generic: FunctionType
    source: str
    assumptions: list[Assumption]
    notes: list[Note]
    valid: bool = True
    again: Callable[[], Any] | None = field(default=None, repr=False)
    trampoline: CodeType | None = field(default=None, repr=False)


#: The only free variable of a forwarder: what it calls.
TARGET = ".target"

#: The free variable that holds the record.  The generic function may lead back to the residual one
#: (a class that holds it), so that a table on the side, weak keys or not, would keep both for ever;
#: a cell is seen by the cyclic collector.
RECORD = ".record"


def record_of(function: Any) -> Record | None:
    """The record of a residual function (or of the one that it forwards to), None for other objects."""
    target = cell_content(function, TARGET)
    if target is not None:
        return record_of(target)
    record = cell_content(function, RECORD)
    if record is None or record.valid:
        return record
    return record_of(cell_content(function, GENERIC)) or record


def generic_of(function: Any) -> Any:
    """The generic function behind a residual one or one that is specialised later; else `function`."""
    record = record_of(function)
    if record is not None:
        return record.generic
    target = cell_content(function, TARGET)
    return getattr(target, "generic", target) if target is not None else function


def cell_content(function: Any, name: str) -> Any:
    """What a free variable of a function holds; None if it has no such variable."""
    if not isinstance(function, FunctionType) or name not in function.__code__.co_freevars:
        return None
    cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
    return cell.cell_contents


def build(request: Request, residual: Residual) -> FunctionType:
    """Make the function object of a residual.

    Args:
        request: what was asked for; names the generic function.
        residual: what evaluation gave.

    Returns:
        A function with the face of the generic one.

    Raises:
        VerificationError: the code is not accepted; nothing is installed.
        UnsupportedBytecode: the IR has no encoding here.
    """
    generic = request.function
    source = residual_source(residual.fn)
    remembered = CellType()
    make_room(residual.fn)
    own = own_cells(generic) if keeps_its_kind(request) else {}
    cells = {**dict(zip(residual.fn.freevars, residual.cells, strict=True)), **own}
    residual.fn.freevars = [*cells, GENERIC, RECORD]
    residual.cells = (*cells.values(), CellType(generic), remembered)
    code = lower(residual.fn)
    verify(code)
    make = generic_code if keeps_its_kind(request) else trampoline_code
    trampoline = make(residual.fn, request)
    verify(trampoline)
    remembered.cell_contents = Record(
        generic, source, residual.assumptions, residual.notes, trampoline=trampoline
    )
    function = FunctionType(code, generic.__globals__, generic.__name__, None, residual.cells)
    copy_face(request, function)
    return function


def make_room(fn: Function) -> None:
    """Rename the free variables that another residual function, which this one is made from, added.

    One name for two cells would be one variable to a debugger that writes locals back.
    """
    taken = [name for name in fn.freevars if name in (GENERIC, RECORD, TARGET)]
    for name in taken:
        new = name
        while new in fn.freevars:
            new += "_"
        fn.freevars[fn.freevars.index(name)] = new
        for op in (op for block in fn.blocks for op in block.ops if op.name in CELL_OPS):
            op.arg = new if op.arg == name else op.arg


def keeps_its_kind(request: Request) -> bool:
    """Whether the function is a generator or coroutine: one that calls the generic one would be neither.

    With fixed parameters it has to call it all the same.
    """
    return bool(request.function.__code__.co_flags & GENERATORS) and not request.constants


def own_cells(function: FunctionType) -> dict[str, CellType]:
    """The closure of a function by name."""
    return dict(zip(lift(function.__code__).freevars, function.__closure__ or (), strict=True))


def generic_code(fn: Function, request: Request) -> CodeType:
    """The code of the generic function, with the free variables of a residual one that has its cells."""
    generic = lift(request.function.__code__)
    generic.freevars = list(fn.freevars)
    return lower(generic)


def trampoline_code(fn: Function, request: Request, target: str = GENERIC) -> CodeType:
    """Code with the same parameters and free variables that calls what one of these holds.

    Args:
        fn: the function whose parameters and free variables the code has.
        request: names the generic function.
        target: the free variable.
    """
    from .evaluate.guards import call_generic_block

    shell = Function(
        name=fn.name,
        qualname=fn.qualname,
        filename=fn.filename,
        firstlineno=fn.firstlineno,
        argcount=fn.argcount,
        posonlyargcount=fn.posonlyargcount,
        kwonlyargcount=fn.kwonlyargcount,
        flags=fn.flags & ~GENERATORS,
        varnames=list(fn.arg_names),
        cellvars=[],
        freevars=list(fn.freevars),
        doc=fn.doc,
        prologue=dict(fn.prologue),
        code=fn.code,
    )
    block = Block(0)
    shell.blocks.append(block)
    call_generic_block(block, shell, request, target)
    return lower(shell)


def forwarder(generic: FunctionType, target: Callable[..., Any]) -> tuple[FunctionType, CellType]:
    """A function with the face of a generic one that calls what a cell holds.

    Args:
        generic: the function.
        target: what it calls first.

    Returns:
        The function, and the cell.
    """
    fn = lift(generic.__code__)
    fn.freevars = [TARGET]
    request = Request(generic)
    code = trampoline_code(fn, request, TARGET)
    verify(code)
    cell = CellType(target)
    function = FunctionType(code, generic.__globals__, generic.__name__, None, (cell,))
    copy_face(request, function)
    return function, cell


class Later:
    """Called in place of a function that is specialised after a number of calls.

    Args:
        generic: the function.
        specialise: gives what is called from then on.
        calls: generic calls before that.
    """

    def __init__(
        self, generic: Callable[..., Any], specialise: Callable[[], Any], calls: int
    ) -> None:
        self.generic = generic
        self.specialise = specialise
        self.remaining = calls
        self.cell: CellType | None = None
        self.busy = threading.Lock()
        self.done: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.remaining > 0 or not self.busy.acquire(blocking=False):
            self.remaining -= 1
            return self.generic(*args, **kwargs)
        try:
            if self.done is None:  # by a thread that was here first
                self.done = self.specialise()
                if self.cell is not None:
                    self.cell.cell_contents = self.done
        finally:
            self.busy.release()
        return self.done(*args, **kwargs)


def copy_face(request: Request, function: FunctionType) -> None:
    """Name, documentation, defaults, annotations and attributes as on the generic function."""
    generic, fixed = request.function, request.constants
    function.__qualname__ = generic.__qualname__
    function.__doc__ = generic.__doc__
    function.__module__ = generic.__module__
    function.__dict__.update(generic.__dict__)
    copy_annotations(generic, function, fixed)
    code = generic.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = generic.__defaults__ or ()
    with_default = names[len(names) - len(defaults) :]
    kept = [d for n, d in zip(with_default, defaults, strict=True) if n not in fixed]
    function.__defaults__ = tuple(kept) or None
    if generic.__kwdefaults__:
        function.__kwdefaults__ = {
            n: d for n, d in generic.__kwdefaults__.items() if n not in fixed
        }


def copy_annotations(generic: FunctionType, function: FunctionType, fixed: Container[str]) -> None:
    """The annotations without those of fixed parameters.

    Where a version evaluates them only when they are asked for (CPython 3.14), that stays so.
    """
    annotate = getattr(generic, "__annotate__", None)
    if annotate is None:
        found = generic.__annotations__
        function.__annotations__ = {n: a for n, a in found.items() if n not in fixed}
    else:
        function.__annotate__ = annotate_without(annotate, fixed)  # type: ignore[attr-defined]


def annotate_without(annotate: Callable[[int], dict[str, Any]], fixed: Container[str]) -> Any:
    """What gives the annotations but those of the fixed parameters, in every format."""
    if not fixed:
        return annotate
    call: Any = import_module("annotationlib").call_annotate_function

    def __annotate__(format: int, /) -> dict[str, Any]:
        return {n: a for n, a in call(annotate, format).items() if n not in fixed}

    return __annotate__


def invalidate(function: FunctionType, why: str) -> None:
    """Make a residual function run the generic code from its next call on.

    A record that says how is specialised again at that call.
    """
    record = cell_content(function, RECORD)
    if record is None or not record.valid or record.trampoline is None:
        return
    record.valid = False
    if record.again is not None and not record.trampoline.co_flags & GENERATORS:
        later = Later(record.generic, record.again, calls=0)
        names = function.__code__.co_freevars
        later.cell = (function.__closure__ or ())[names.index(GENERIC)]
        later.cell.cell_contents = later
    function.__code__ = record.trampoline
    log.info("%s runs the generic code again: %s", function.__qualname__, why)
