"""Writing residual code: operations, blocks, names.

`Emitter` holds the abstract state of the path being followed and the residual block being filled;
`bcspec.evaluate.machine` adds what rules do with both.
"""

from __future__ import annotations

from types import CellType
from typing import TYPE_CHECKING, Any

from ..ir import Block, Edge, Op, Value
from ..lower.tables import current
from .domain import NULL, AVal, Const, Dyn, Entry, Frame, Own, Ref, State, Tmp, TypeFact, VObj

if TYPE_CHECKING:
    from .request import Request

#: The handler of a residual block in which nothing has raised yet.
UNSET = object()


class Restart(Exception):
    """Evaluation has to start again with one more thing that stays generic.

    `demand` is added to the set of that `kind` in `bcspec.evaluate.request.Demands`.
    """

    def __init__(self, kind: str, demand: Any, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.demand = demand
        self.why = why


class Emitter:
    """State and emission."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.state = State([])
        self.blocks: list[Block] = []
        self.cur = Block(0)
        self.protected: Any = UNSET
        self.landings: dict[Any, Block] = {}
        self.pending: list[tuple[State, Block]] = []
        self.freevars: dict[str, CellType] = {}
        #: What values on the stack tell about the type of what is in a slot.
        self.type_facts: dict[Value, TypeFact] = {}
        self.counter = 0
        self.emitted = 0
        self.lines_above: bool = current().LINES_ABOVE

    # -- names -----------------------------------------------------------------------

    def fresh_slot(self, hint: str) -> str:
        """A slot name that nothing else uses."""
        self.counter += 1
        return f"{hint.split('.')[0]}.{self.counter}"

    def new_ref(self, obj: VObj) -> Ref:
        """Put a virtual object on the heap."""
        self.counter += 1
        self.state.heap[self.counter] = obj
        return Ref(self.counter)

    def generic_from_here(self, why: str) -> Restart:
        """What to raise when the innermost unfolded function cannot be unfolded after all."""
        frames = self.state.frames
        if len(frames) == 1:
            return Restart("refused", None, why)
        return Restart("no_unfold", frames[-1].source.code, why)

    # -- operations ------------------------------------------------------------------

    def site(self) -> tuple[Any, Any]:
        """Position and code object for what is emitted now.

        Code from another file is reported at the place in the function's own file that led to it, and
        so is code above the function where the interpreter would tell its lines wrong.
        """
        frames = self.state.frames
        home = frames[0].source.code
        for frame in reversed(frames):
            if frame.source.code.co_filename == home.co_filename:
                op = current_op(frame)
                if self.lines_above or (op.line or home.co_firstlineno) >= home.co_firstlineno:
                    return op.pos, frame.source.code
        return None, None

    def emit(
        self, name: str, arg: Any, operands: Any = (), results: int = 0, *, quiet: bool = True
    ) -> tuple[Value, ...]:
        """Append an operation that cannot raise (`emit_raising` is for those that can)."""
        pos, code = self.site()
        op = Op(name, arg, operands, [Value() for _ in range(results)], pos, code, quiet)
        self.cur.ops.append(op)
        self.emitted += 1
        return op.results

    def emit_prologue(self, name: str, arg: Any, operands: Any, results: int) -> tuple[Value, ...]:
        """Append an operation before any frame exists."""
        op = Op(name, arg, operands, [Value() for _ in range(results)], None, None)
        self.cur.ops.append(op)
        return op.results

    def free_name(self, cell: CellType, name: str) -> str:
        """The free variable of the residual function through which an existing cell is reached."""
        for known, other in self.freevars.items():
            if other is cell:
                return known
        unique = name
        while unique in self.freevars or unique in self.request.function.__code__.co_cellvars:
            self.counter += 1
            unique = f"{name}.{self.counter}"
        self.freevars[unique] = cell
        return unique

    @staticmethod
    def value_of(entry: Entry) -> Value:
        assert entry.temp is not None
        return entry.temp

    def const_entry(self, obj: Any) -> Entry:
        """A known object, pushed in source order (deleted later when it is not needed)."""
        (value,) = self.emit_const(obj)
        return Entry(Const(obj), value)

    def emit_const(self, obj: Any) -> tuple[Value, ...]:
        """Push a known object.  Without assumptions there are no cells: slices are built."""
        if type(obj) is CellType:
            return self.emit("load_closure", self.free_name(obj, "cell"), (), 1)
        if type(obj) is not slice or self.request.assume:
            return self.emit("const", obj, (), 1)
        parts = [self.emit("const", part, (), 1)[0] for part in (obj.start, obj.stop, obj.step)]
        return self.emit("build_slice", None, parts, 1)

    def load(self, aval: AVal) -> tuple[Value, ...]:
        """Emit what puts a constant, NULL or a slot on the stack."""
        if isinstance(aval, Const):
            return self.emit_const(aval.obj)
        if isinstance(aval, Dyn):
            return self.emit("load", aval.slot, (), 1)
        if isinstance(aval, Own):
            return self.emit("load_closure", aval.name, (), 1)
        assert aval is NULL, aval
        return self.emit("null", None, (), 1)

    # -- residual blocks -------------------------------------------------------------

    def strip(self) -> None:
        """Drop values that were pushed ahead but can be loaded again where they are wanted."""
        for frame in self.state.frames:
            for value, entry in frame.env.items():
                if entry.temp is not None and not isinstance(entry.aval, Tmp):
                    self.emit("drop", None, (entry.temp,))
                    frame.env[value] = Entry(entry.aval)

    def physical(self) -> list[Value]:
        """The physical operand stack, bottom first."""
        frames = self.state.frames
        entries = [entry for frame in frames for entry in frame.env.values()]
        return [e.temp for e in entries + self.state.hand if e.temp is not None]

    def reparam(self, state: State, block: Block) -> None:
        """Make `state` refer to fresh parameters of `block` instead of the values passed to it."""

        def renew(entry: Entry) -> Entry:
            if entry.temp is None:
                return entry
            value = Value()
            block.params.append(value)
            aval = entry.aval
            return Entry(Tmp(value, aval.type) if isinstance(aval, Tmp) else aval, value)

        for frame in state.frames:
            for value, entry in frame.env.items():
                frame.env[value] = renew(entry)
        state.hand[:] = [renew(entry) for entry in state.hand]

    def start(self, block: Block) -> None:
        """Fill `block` from now on."""
        self.blocks.append(block)
        self.cur = block
        self.protected = UNSET

    def finish(self, name: str, arg: Any, operands: Any, edges: list[Edge], results: int = 0) -> Op:
        """End the residual block."""
        pos, code = self.site()
        op = Op(name, arg, operands, [Value() for _ in range(results)], pos, code)
        self.cur.term = op
        self.cur.edges = edges
        self.emitted += 1
        return op


def current_op(frame: Frame) -> Op:
    """The operation that a frame is evaluating."""
    ops = frame.block.ops
    index = frame.index - 1
    op = ops[index] if 0 <= index < len(ops) else frame.block.term
    assert op is not None
    return op
