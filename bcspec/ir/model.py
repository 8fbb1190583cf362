"""Data structures of the IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .ops import OPS, OpSpec

#: Ends the IR name of a free variable whose name is that of a cell variable, too, and that of a
#: comprehension's variable that uses the slot of a cell variable while that cell is set aside.
CLASH = "'"

#: Flags of a code object that makes a generator, a coroutine or an asynchronous generator.
GENERATORS = 0x20 | 0x80 | 0x200


class Value:
    """One reference on its way from the operation that made it to the one that consumes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<value {id(self):#x}>"


class Op:
    """One operation.

    Attributes:
        name: a key of `bcspec.ir.ops.OPS`.
        arg: the immediate argument (a name, a constant, a count ...) or None.
        operands: values used, bottom of the stack first.
        results: values defined, bottom of the stack first.
        pos: source position (a `bytecode.InstrLocation`) or None.
        code: the code object whose source `pos` refers to.
        quiet: it is known not to raise here, though operations of its name may.
    """

    __slots__ = ("arg", "code", "name", "operands", "pos", "quiet", "results")

    def __init__(
        self,
        name: str,
        arg: Any = None,
        operands: tuple[Value, ...] | list[Value] = (),
        results: tuple[Value, ...] | list[Value] = (),
        pos: Any = None,
        code: CodeType | None = None,
        quiet: bool = False,
    ) -> None:
        self.name = name
        self.arg = arg
        self.operands = tuple(operands)
        self.results = tuple(results)
        self.pos = pos
        self.code = code
        self.quiet = quiet

    @property
    def raises(self) -> bool:
        """Whether it may run arbitrary code or raise."""
        return OPS[self.name].raises and not self.quiet

    @property
    def spec(self) -> OpSpec:
        """The entry of the operation table."""
        return OPS[self.name]

    @property
    def keeps(self) -> int:
        """How many operands, from the left, are only looked at (`reraise` keeps its lasti)."""
        if self.name == "with_except_start":
            return len(self.operands)
        return len(self.operands) - 1 if self.name == "reraise" else OPS[self.name].keeps

    @property
    def line(self) -> int | None:
        """Source line, or None for an artificial operation."""
        return self.pos.lineno if self.pos is not None else None

    def __repr__(self) -> str:
        return f"<{self.name} {self.arg!r} line {self.line}>"


@dataclass(slots=True, eq=False)
class Edge:
    """A way into `target`; `args` become its parameters, bottom of the stack first."""

    target: Block
    args: tuple[Value, ...] = ()


@dataclass(slots=True, eq=False)
class Handler:
    """Where an exception goes: `target` gets `args`, then lasti if asked for, then the exception.

    `args` are the bottom of the operand stack, alive through the whole block.
    """

    target: Block
    args: tuple[Value, ...] = ()
    lasti: bool = False


@dataclass(slots=True, eq=False)
class Block:
    """A straight run of operations with one terminator and at most one handler."""

    id: int
    params: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    term: Op | None = None
    edges: list[Edge] = field(default_factory=list)
    handler: Handler | None = None

    def all_ops(self) -> Iterator[Op]:
        """The operations and the terminator."""
        yield from self.ops
        if self.term is not None:
            yield self.term


@dataclass(slots=True, eq=False)
class Function:
    """A function body in IR form.  `blocks[0]` is the entry; it has no parameters.

    `varnames` lists the arguments first (as in a code object), then every other local.
    `doc` is what must come first in ``co_consts`` (a docstring or None), or `bytecode.UNSET`.
    `shadows` are the locals that share the slot of a cell variable; none in residual code.
    `prologue` keeps the positions of the instructions that every function begins with.
    """

    name: str
    qualname: str
    filename: str
    firstlineno: int
    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    flags: int
    varnames: list[str]
    cellvars: list[str]
    freevars: list[str]
    doc: Any
    blocks: list[Block] = field(default_factory=list)
    prologue: dict[str, Any] = field(default_factory=dict)
    shadows: list[str] = field(default_factory=list)
    code: CodeType | None = None

    @property
    def arg_names(self) -> list[str]:
        """Names of all parameters, in the order of the fast locals."""
        extra = bool(self.flags & 0x04) + bool(self.flags & 0x08)
        return self.varnames[: self.argcount + self.kwonlyargcount + extra]

    def predecessors(self) -> dict[Block, list[Block]]:
        """For each block the blocks with a normal edge into it."""
        preds: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.blocks:
            for edge in block.edges:
                preds[edge.target].append(block)
        return preds
