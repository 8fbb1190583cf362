"""Building the residual function object, and taking it back when an assumption breaks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

from .evaluate import Assumption, Note, Request, Residual
from .ir import Block, Function
from .lower import lower
from .verify import verify

log = logging.getLogger("bcspec")

#: The free variable through which a residual function reaches the generic one.
GENERIC = "generic"


@dataclass(slots=True)
class Record:
    """What is remembered of a residual function, for as long as it lives.

    Attributes:
        generic: the function it was made from.
        fn: its residual IR.
        assumptions: what it relies on.
        notes: decisions of the evaluator.
        valid: False once an assumption has broken and it runs the generic code.
    """

    generic: FunctionType
    fn: Function
    assumptions: list[Assumption]
    notes: list[Note]
    valid: bool = True
    trampoline: CodeType | None = field(default=None, repr=False)


#: The free variable that holds the record.  The generic function may lead back to the residual one
#: (a class that holds it), so that a table on the side, weak keys or not, would keep both for ever;
#: a cell is seen by the cyclic collector.
RECORD = ".record"


def record_of(function: Any) -> Record | None:
    """The record of a residual function, or None for any other object."""
    if not isinstance(function, FunctionType) or RECORD not in function.__code__.co_freevars:
        return None
    cell = (function.__closure__ or ())[function.__code__.co_freevars.index(RECORD)]
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
    reach_generic(residual, generic)
    record = Record(generic, residual.fn, residual.assumptions, residual.notes)
    residual.fn.freevars = [*residual.fn.freevars, RECORD]
    residual.cells = (*residual.cells, CellType(record))
    code = lower(residual.fn)
    verify(code)
    trampoline = trampoline_code(residual.fn, request)
    verify(trampoline)
    record.trampoline = trampoline
    function = FunctionType(code, generic.__globals__, generic.__name__, None, residual.cells)
    copy_face(request, function)
    return function


def reach_generic(residual: Residual, generic: FunctionType) -> None:
    """Make sure that one of the cells holds the generic function, for the trampoline."""
    for name, cell in zip(residual.fn.freevars, residual.cells, strict=True):
        if name == GENERIC and cell.cell_contents is generic:
            return
    residual.fn.freevars = [*residual.fn.freevars, GENERIC]
    residual.cells = (*residual.cells, CellType(generic))


def trampoline_code(fn: Function, request: Request) -> CodeType:
    """Code with the same parameters and free variables that calls the generic function."""
    from .evaluate.guards import call_generic_block

    shell = Function(
        name=fn.name,
        qualname=fn.qualname,
        filename=fn.filename,
        firstlineno=fn.firstlineno,
        argcount=fn.argcount,
        posonlyargcount=fn.posonlyargcount,
        kwonlyargcount=fn.kwonlyargcount,
        flags=fn.flags & ~(0x20 | 0x80 | 0x200),
        varnames=list(fn.arg_names),
        cellvars=[],
        freevars=list(fn.freevars),
        doc=fn.doc,
        prologue=dict(fn.prologue),
        code=fn.code,
    )
    block = Block(0)
    shell.blocks.append(block)
    call_generic_block(block, shell, request, GENERIC)
    return lower(shell)


def copy_face(request: Request, function: FunctionType) -> None:
    """Name, documentation, defaults, annotations and attributes as on the generic function."""
    generic, fixed = request.function, request.constants
    function.__qualname__ = generic.__qualname__
    function.__doc__ = generic.__doc__
    function.__module__ = generic.__module__
    function.__dict__.update(generic.__dict__)
    function.__annotations__ = {n: a for n, a in generic.__annotations__.items() if n not in fixed}
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


def invalidate(function: FunctionType, why: str) -> None:
    """Make a residual function run the generic code from its next call on."""
    record = record_of(function)
    if record is None or not record.valid or record.trampoline is None:
        return
    record.valid = False
    function.__code__ = record.trampoline
    log.info("%s runs the generic code again: %s", function.__qualname__, why)


Invalidate = Callable[[str], None]
