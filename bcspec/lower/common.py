"""Lowering: put the IR back on the operand stack and encode it.

The emitter keeps a model of the stack (a list of values).  Before an operation its operands are
brought to the top with SWAPs; IR in stack order needs none.  Parameters of a block are on the
stack when it is entered, bottom first.  Handlers become regions of the exception table; the
`bytecode` package encodes them, the jumps, the constants and the line table.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from bytecode import (
    UNSET,
    Bytecode,
    CellVar,
    Compare,
    CompilerFlags,
    FreeVar,
    Instr,
    Label,
    TryBegin,
    TryEnd,
)

from ..errors import UnsupportedBytecode
from ..ir import CLASH, GENERATORS, Block, Edge, Function, Op, Value
from .bound import bound_at_start, step, unsure_stores
from .linetable import repaired
from .nulls import callables_of, null_values
from .tables import current

__all__ = ["Compare", "Emission", "lower"]

#: Operations whose instructions never raise: whether a region covers them makes no difference.
HARMLESS = frozenset("const null copy load store drop nop load_closure return_value".split())


class Emission:
    """The instruction list of one function while it grows; what the version tables act on."""

    def __init__(self, fn: Function, table: Any) -> None:
        self.fn = fn
        self.table = table
        self.code = Bytecode()
        self.labels: dict[Block, Label] = {block: Label() for block in fn.blocks}
        self.order: dict[Block, int] = {block: index for index, block in enumerate(fn.blocks)}
        self.preds = fn.predecessors()
        self.handled = {block.handler.target for block in fn.blocks if block.handler}
        self.stack: list[Value] = []
        self.max_depth = 0
        #: Where jumps out of a loop land, just before the block, by block and kind of landing.
        self.landings: dict[Block, dict[str, tuple[Label, Any]]] = {}
        self.stop_iteration = Label()
        converts = bool(fn.flags & GENERATORS) and "STOP_ITERATION" in fn.prologue
        #: The region of what no block's handler covers.
        self.outer_key = (self.stop_iteration, 0, True) if converts else None
        self.region: TryBegin | None = None
        self.region_key: tuple[Any, ...] | None = None
        self.wanted_key: tuple[Any, ...] | None = None
        self.block: Block = fn.blocks[0]
        self.pos: Any = None
        self.index = 0
        self.first_raising, self.last_raising = 0, -1
        self.unsure = unsure_stores(fn) if table.CHECKED_LOAD else frozenset()
        self.bound_at_start = bound_at_start(fn, self.unsure) if table.CHECKED_LOAD else {}
        #: Locals that are certainly bound, where the version reads without a check.
        self.bound: frozenset[str] = frozenset()
        #: Values that are NULL, their callables, and those that wait for theirs, where the version
        #: has NULL after the callable.
        self.nulls = null_values(fn) if table.NULL_AFTER else frozenset()
        self.callables = callables_of(fn, self.nulls)
        self.waiting: dict[Value, Value] = {}
        self.skip: set[Op] = set()
        self.done: set[Op] = set()

    # -- what rules call -------------------------------------------------------------

    def instr(self, name: str, arg: Any = UNSET) -> None:
        """Append one instruction, opening or closing an exception-table region first."""
        if self.region_key != self.wanted_key:
            self.switch_region()
            if name in self.table.UNWINDS_BEFORE:
                self.code.append(Instr("NOP", location=self.pos))
        self.code.append(Instr(name, arg, location=self.pos))

    def variable(self, name: str) -> CellVar | FreeVar:
        return CellVar(name) if name in self.fn.cellvars else FreeVar(name.rstrip(CLASH))

    def depth_of(self, value: Value) -> int:
        """Distance from the top of the stack: 1 is the top."""
        return len(self.stack) - self.stack.index(value)

    def arrange(self, operands: tuple[Value, ...]) -> None:
        """Bring `operands` to the top of the stack, in order, with SWAPs."""
        count = len(operands)
        stack = self.stack
        if count == 0 or tuple(stack[-count:]) == operands:
            return
        lowest = min(stack.index(value) for value in operands)
        moved = stack[lowest:]
        self.permute(lowest, [v for v in moved if v not in operands] + list(operands))

    def permute(self, base: int, desired: list[Value]) -> None:
        """Reorder the stack from `base` up by cycles through the top; SWAP is its own inverse."""
        stack = self.stack
        top = len(stack) - 1
        if {*stack[base:]} != {*desired} or len(stack) != base + len(desired):
            raise UnsupportedBytecode("what is on the stack is not what is wanted of it")
        while stack[base:] != desired:
            want = base + desired.index(stack[top])
            if want == top:
                want = next(i for i in range(base, top) if stack[i] != desired[i - base])
            self.instr("SWAP", top - want + 1)
            stack[top], stack[want] = stack[want], stack[top]

    def consume(self, op: Op) -> None:
        """Account for the operands taken and the results pushed by `op`."""
        for value in op.operands[op.keeps :]:
            self.stack.remove(value)
        self.stack.extend(op.results)
        self.max_depth = max(self.max_depth, len(self.stack))

    def following(self) -> Op:
        """The operation after the one being emitted."""
        ops, after = self.block.ops, self.index + 1
        op = ops[after] if after < len(ops) else self.block.term
        assert op is not None
        return op

    def jump_to(self, name: str, target: Block) -> None:
        self.instr(name, self.labels[target])

    def jump_out(self, name: str, landing: str, target: Block) -> None:
        """Jump to `target`, over the instructions that must stand where such a jump lands."""
        if landing not in self.table.LANDINGS:
            self.jump_to(name, target)
            return
        landings = self.landings.setdefault(target, {})
        label, _ = landings.setdefault(landing, (Label(), self.pos))
        self.instr(name, label)

    def is_next(self, target: Block) -> bool:
        return self.order[target] == self.order[self.block] + 1

    def is_backward(self, target: Block) -> bool:
        return self.order[target] <= self.order[self.block]

    # -- regions ---------------------------------------------------------------------

    def switch_region(self) -> None:
        if self.region is not None:
            self.code.append(TryEnd(self.region))
        self.region, self.region_key = None, self.wanted_key
        if self.wanted_key is not None:
            target, depth, lasti = self.wanted_key
            label = target if isinstance(target, Label) else self.labels[target]
            self.region = TryBegin(label, lasti, depth)
            self.code.append(self.region)

    # -- blocks ----------------------------------------------------------------------

    def begin_block(self, block: Block) -> None:
        self.block = block
        self.bound = self.bound_at_start.get(block, frozenset())
        self.stack = list(block.params)
        self.max_depth = max(self.max_depth, len(self.stack))
        raising = [index for index, op in enumerate(block.all_ops()) if op.raises]
        self.first_raising, self.last_raising = (raising[0], raising[-1]) if raising else (0, -1)
        if self.preds[block] or block in self.handled:
            self.land(block)
            self.pad_loop_header(block)
            self.code.append(self.labels[block])

    def land(self, block: Block) -> None:
        """Write what jumps out of loops find in front of `block`; other ways in go around it."""
        landings = self.landings.get(block, {})
        if landings and self.region_key is not None and self.region_key[1] > len(block.params):
            self.wanted_key = None
            self.switch_region()
        for landing, (label, pos) in landings.items():
            last = next((item for item in reversed(self.code) if isinstance(item, Instr)), None)
            if last is not None and not ends_control(last):
                self.code.append(Instr("JUMP_FORWARD", self.labels[block], location=last.location))
            self.code.append(label)
            for name in self.table.LANDINGS[landing]:
                self.code.append(Instr(name, location=pos))

    def pad_loop_header(self, block: Block) -> None:
        """Put a covered NOP before a loop whose handler does not cover what comes before it.

        A signal noticed at a jump back counts as raised by the instruction before the target
        (CPython 3.11, ``Python/ceval.c``: JUMP_BACKWARD checks after it has jumped).
        """
        handler = block.handler
        if handler is None or not any(
            self.order[p] >= self.order[block] for p in self.preds[block]
        ):
            return
        self.wanted_key = (handler.target, len(handler.args), handler.lasti)
        if self.table.SIGNAL_AT_TARGET and self.region_key != self.wanted_key:
            self.pos = next((op.pos for op in block.all_ops()), None)
            self.instr("NOP")
        self.wanted_key = None

    def emit_block(self, block: Block) -> None:
        self.begin_block(block)
        emit = self.table.EMIT
        for self.index, op in enumerate(block.ops):
            if op in self.skip:
                self.stack.pop()
                continue
            if op in self.done:
                self.push_waiting(op)
                continue
            self.pos = op.pos
            self.guard(op)
            rule = emit.get(op.name)
            if rule is None:
                raise UnsupportedBytecode(f"operation {op.name} cannot be lowered here")
            rule(self, op)
            self.push_waiting(op)
            self.bound = step(self.bound, op, self.unsure)
        assert block.term is not None
        self.pos = block.term.pos
        self.index = len(block.ops)
        self.guard(block.term)
        emit[block.term.name](self, block.term)

    def push_waiting(self, op: Op) -> None:
        """Push the NULL that waits for the callable that `op` has given."""
        for value in op.results if self.waiting else ():
            if value not in self.waiting:
                continue
            null = self.waiting.pop(value)
            if op.name != "load_global":  # whose instruction has pushed it
                self.instr("PUSH_NULL")
            self.stack.append(null)
            self.max_depth = max(self.max_depth, len(self.stack))

    def guard(self, op: Op) -> None:
        """Cover the next instruction by the handler of the block, if the stack is as it needs.

        The region reaches from the first to the last operation that can raise; what cannot may take
        away what the handler keeps, or change which exception is being handled.
        """
        handler = self.block.handler
        self.wanted_key = self.uncovered(op) if handler is None else None
        if handler is None or not self.first_raising <= self.index <= self.last_raising:
            return
        if tuple(self.stack[: len(handler.args)]) == handler.args:
            self.wanted_key = (handler.target, len(handler.args), handler.lasti)
        elif op.raises and op.name != "jump":
            raise UnsupportedBytecode(f"{op.name} may raise while the stack is not in order")

    def uncovered(self, op: Op) -> tuple[Any, ...] | None:
        """The region of an operation that no handler of the IR covers.

        What is known not to raise may stand where an exception is being handled, and so may a jump
        back that stands alone, or right after a test that cannot raise (the compiler leaves them
        uncovered).
        """
        jumps = op.name == "jump" or self.table.tests_safely(self, op)
        alone = jumps and self.first_raising == self.index
        if op.raises and not alone:
            return self.outer_key
        stays = self.region_key == self.outer_key and op.name in HARMLESS
        return self.region_key if stays else None

    def settle(self, args: tuple[Value, ...]) -> None:
        """Arrange the whole stack as `args` (the parameters of a successor)."""
        if tuple(self.stack) != args:
            self.permute(0, list(args))

    def go(self, target: Block, jump_name: str) -> None:
        """Continue at `target`: nothing to do when it comes next, but to keep a line of its own."""
        if not self.is_next(target):
            self.jump_to(jump_name, target)
        elif self.is_only_one_of_its_line(target):
            self.instr("NOP")

    def is_only_one_of_its_line(self, target: Block) -> bool:
        """Whether the jump to the next block is all that stands on its source line (``pass``)."""
        line = getattr(self.pos, "lineno", None)
        last = next((i for i in reversed(self.code) if isinstance(i, Instr)), None)
        before = last.location.lineno if last is not None and last.location else None
        after = next((op.line for op in target.all_ops()), None)
        return line is not None and line not in (before, after)

    def run(self) -> CodeType:
        fn = self.fn
        self.table.prologue(self)
        for block in fn.blocks:
            self.emit_block(block)
        self.wanted_key = None
        if self.region is not None:
            self.switch_region()
        if self.outer_key is not None:
            self.convert_stop_iteration()
        return self.assemble()

    def convert_stop_iteration(self) -> None:
        """The handler that every version but 3.11 has around the body of a generator."""
        self.pos = self.fn.prologue["STOP_ITERATION"]
        self.code.append(self.stop_iteration)
        for name, arg in self.table.STOP_ITERATION:
            self.instr(name, arg)
        self.max_depth = max(self.max_depth, 2)

    def assemble(self) -> CodeType:
        fn, code = self.fn, self.code
        code.name, code.qualname, code.filename = fn.name, fn.qualname, fn.filename
        code.first_lineno = fn.firstlineno
        code.argcount = fn.argcount
        code.posonlyargcount = fn.posonlyargcount
        code.kwonlyargcount = fn.kwonlyargcount
        code.flags = CompilerFlags(fn.flags)
        code.cellvars = list(fn.cellvars)
        code.freevars = [name.rstrip(CLASH) for name in fn.freevars]
        # Naming every local here keeps the order of the slots, hence of object deaths.
        code.argnames = slots_in_order(fn) if self.table.LAST_LOCAL_DIES_FIRST else fn.varnames
        code.docstring = fn.doc
        depth = max(self.max_depth + self.table.EXTRA_STACK, 1)
        return repaired(code.to_code(stacksize=depth, compute_exception_stack_depths=False))


def slots_in_order(fn: Function) -> list[str]:
    """The locals where the interpreter clears the slots of a frame from the last to the first.

    Slots that stand for what was on the operand stack were filled from its top: there they are
    turned around, so that the top still dies first.  Locals of unfolded functions (``name@depth``)
    keep the order of their own frame.
    """
    own = fn.code.co_varnames if fn.code is not None else ()
    moved = [name for name in fn.varnames if name not in own and "@" not in name]
    turned = dict(zip(moved, reversed(moved), strict=True))
    return [turned.get(name, name) for name in fn.varnames]


def ends_control(instr: Instr) -> bool:
    """Whether control never goes on to what follows `instr`."""
    return instr.is_uncond_jump() or instr.is_final()


def bridge_backward_edges(fn: Function, forward_only: dict[str, tuple[int, ...]]) -> None:
    """Give edges that can only jump forward, but lead back, a block of their own at the end.

    Args:
        fn: the function, changed in place.
        forward_only: for terminators, which of their edges are encoded as forward jumps.
    """
    order = {block: index for index, block in enumerate(fn.blocks)}
    for block in list(fn.blocks):
        assert block.term is not None
        for position in forward_only.get(block.term.name, ()):
            edge = block.edges[position]
            if order[edge.target] > order[block]:
                continue
            params = [Value() for _ in edge.args]
            jump = Op("jump", None, (), (), block.term.pos, block.term.code)
            bridge = Block(len(fn.blocks), params, [], jump, [Edge(edge.target, tuple(params))])
            edge.target = bridge
            fn.blocks.append(bridge)


def lower(fn: Function) -> CodeType:
    """Encode `fn` for the running interpreter.

    Args:
        fn: checked IR; constants that code objects cannot hold must already be in cells.

    Returns:
        A code object (not yet verified).

    Raises:
        UnsupportedBytecode: unknown version, or an operation it has no instruction for.
    """
    table = current()
    bridge_backward_edges(fn, table.FORWARD_ONLY)
    return Emission(fn, table).run()
