"""Lifting: simulate the operand stack over the control-flow graph and name what is on it.

Exception-table entries, decoded by the `bytecode` package, become handlers of blocks.
SWAP disappears (values are named), COPY stays as an operation (values are linear).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NoReturn

from bytecode import UNSET, Bytecode, CellVar, FreeVar, Instr, Label, TryBegin, TryEnd

from ..errors import UnsupportedBytecode
from ..ir import CLASH, GENERATORS, Block, Edge, Function, Handler, Op, Value
from .tables import current


@dataclass(slots=True, eq=False)
class _Raw:
    """A run of instructions before simulation."""

    instrs: list[Instr] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    handler: TryBegin | None = None
    block: Block | None = None
    next: _Raw | None = None
    plain: frozenset[str] = frozenset()
    edge_blocks: list[Block] = field(default_factory=list)


class Simulation:
    """The operand stack while one code object is lifted; what the version tables act on."""

    def __init__(self, fn: Function, code: CodeType, raws: list[_Raw], table: Any) -> None:
        self.fn = fn
        self.code = code
        self.table = table
        self.by_label = {label: raw for raw in raws for label in raw.labels}
        self.stack: list[Value] = []
        self.kwnames: tuple[str, ...] = ()
        self.pending: list[_Raw] = []
        self.raw: _Raw = raws[0]
        self.block: Block = Block(0)
        self.pos: Any = None
        self.index = 0
        #: Cell variables whose slot is, for a comprehension, that of a plain local; at the start of
        #: the block, too.
        self.plain: frozenset[str] = frozenset()
        self.plain_at_start: frozenset[str] = frozenset()
        #: Values that are whole cells on their way.
        self.cells_aside: set[Value] = set()
        #: Values that are NULL, where the version's table keeps track of them.
        self.nulls: set[Value] = set()

    # -- what rules call -------------------------------------------------------------

    def refuse(self, what: str, instr: Any = None) -> NoReturn:
        line = instr.location.lineno if instr is not None and instr.location else None
        where = f"{self.code.co_filename}:{line or self.code.co_firstlineno}"
        raise UnsupportedBytecode(f"{what} in {self.code.co_qualname} ({where}) cannot be lifted")

    def variable(self, arg: CellVar | FreeVar | str) -> str:
        """How the IR calls a cell or free variable; a cell that is an argument may come by its name."""
        if isinstance(arg, str):
            return arg
        if isinstance(arg, FreeVar):
            return free_variable(arg.name.rstrip(CLASH), self.fn.cellvars)
        return arg.name

    def pop(self, count: int) -> list[Value]:
        if count == 0:
            return []
        if len(self.stack) < count:
            self.refuse("an operand stack that underflows")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def push(self, values: tuple[Value, ...]) -> None:
        self.stack.extend(values)

    def emit(self, name: str, arg: Any, operands: Any, results: int) -> tuple[Value, ...]:
        op = Op(name, arg, operands, [Value() for _ in range(results)], self.pos, self.code)
        self.block.ops.append(op)
        return op.results

    def op(self, name: str, arg: Any, pops: int, pushes: int, keeps: int = 0) -> None:
        """Take `pops` values (the lowest `keeps` of them stay) and push the results."""
        operands = self.pop(pops)
        self.stack.extend(operands[:keeps])
        self.push(self.emit(name, arg, operands, pushes))

    def terminate(self, name: str, arg: Any, operands: Any, results: int = 0) -> Op:
        op = Op(name, arg, operands, [Value() for _ in range(results)], self.pos, self.code)
        self.block.term = op
        if name in ("return_value", "raise_varargs", "reraise"):
            self.stack.clear()
        return op

    @property
    def fallthrough(self) -> _Raw:
        if self.raw.next is None:
            self.refuse("code that runs off its end")
        return self.raw.next

    def jump(self, label: Label, arg: Any = None) -> None:
        self.terminate("jump", arg, ())
        self.edge(self.by_label[label])

    def branch(
        self, kind: str, test: Value, label: Label, other: _Raw, drop_on_fallthrough: bool = False
    ) -> None:
        self.terminate("branch", kind, (test,))
        self.edge(self.by_label[label])
        if drop_on_fallthrough:
            self.drop_edge(other)
        else:
            self.edge(other)

    def for_iter(self, body: _Raw, label: Label) -> None:
        iterator = self.stack[-1]
        op = self.terminate("for_iter", None, (iterator,), 1)
        self.push(op.results)
        self.edge(body)
        self.pop(2)
        self.edge(self.by_label[label])

    def send(self, suspended: _Raw, label: Label) -> None:
        (sent,) = self.pop(1)
        op = self.terminate("send", None, (self.stack[-1], sent), 1)
        self.push(op.results)
        self.edge(suspended)
        self.pop(2)
        self.push(op.results)
        self.edge(self.by_label[label])

    # -- edges -----------------------------------------------------------------------

    def edge(self, raw: _Raw) -> None:
        """An edge that passes the whole stack."""
        target = self.reach(raw, len(self.stack))
        self.pass_on(target.params, self.stack)
        self.block.edges.append(Edge(target, tuple(self.stack)))

    def drop_edge(self, raw: _Raw) -> None:
        """An edge on which the top of the stack is dropped."""
        middle = Block(-1, [Value() for _ in self.stack], handler=None)
        middle.ops.append(Op("drop", None, (middle.params[-1],), (), self.pos, self.code))
        middle.term = Op("jump", None, (), (), self.pos, self.code)
        target = self.reach(raw, len(self.stack) - 1)
        self.pass_on(target.params, self.stack)
        middle.edges.append(Edge(target, tuple(middle.params[:-1])))
        self.block.edges.append(Edge(middle, tuple(self.stack)))
        self.raw.edge_blocks.append(middle)

    def reach(self, raw: _Raw, depth: int) -> Block:
        """The block of `raw`, which is entered with `depth` values on the stack."""
        if raw.block is None:
            raw.block = Block(0, [Value() for _ in range(depth)])
            raw.plain = self.plain
            self.pending.append(raw)
        elif len(raw.block.params) != depth:
            self.refuse(f"a stack of depth {depth} where {len(raw.block.params)} is expected")
        return raw.block

    def pass_on(self, params: list[Value], values: list[Value]) -> None:
        """Remember which parameters are cells, and which are NULL."""
        for known in (self.cells_aside, self.nulls):
            known.update(param for param, value in zip(params, values) if value in known)

    def enter(self, raw: _Raw) -> None:
        block = raw.block
        assert block is not None
        self.raw, self.block = raw, block
        self.plain = self.plain_at_start = raw.plain
        self.stack = list(block.params)

    def continue_in_new_block(self) -> None:
        """End the block here and go on in a fresh one, whose parameters are the stack."""
        after = Block(0, [Value() for _ in self.stack])
        self.block.edges.append(Edge(after, tuple(self.stack)))
        self.block.term = Op("jump", None, (), (), self.pos, self.code)
        self.protect()
        self.raw.edge_blocks.append(after)
        self.pass_on(after.params, self.stack)
        self.block = after
        self.plain_at_start = self.plain
        self.stack = list(after.params)

    def protect(self) -> None:
        """Give the finished block its handler, if anything in it can raise."""
        begin, block = self.raw.handler, self.block
        if begin is None or not any(op.raises for op in block.all_ops()):
            return
        assert isinstance(begin.target, Label)
        depth = self.kept_depth(begin)
        if depth > len(block.params):
            self.refuse("an exception handler deeper than the stack")
        self.plain, after = self.plain_at_start, self.plain
        target = self.reach(self.by_label[begin.target], depth + begin.push_lasti + 1)
        self.plain = after
        self.pass_on(target.params, block.params[:depth])
        block.handler = Handler(target, tuple(block.params[:depth]), begin.push_lasti)

    def kept_depth(self, begin: TryBegin) -> int:
        """How many slots of the stack the handler of a region keeps.

        One that begins with CLEANUP_THROW covers a YIELD_VALUE and keeps, on top, the slot of the
        value sent; in the IR that value is gone when an exception is thrown in.
        """
        assert isinstance(begin.stack_depth, int) and isinstance(begin.target, Label)
        raw = self.by_label[begin.target]
        while not raw.instrs and raw.next is not None:
            raw = raw.next
        return begin.stack_depth - (bool(raw.instrs) and raw.instrs[0].name == "CLEANUP_THROW")

    def take_following(self, name: str) -> None:
        """Leave out the next instruction, which has to be `name`."""
        raw, index = self.raw, self.index + 1
        while index >= len(raw.instrs) and raw.next is not None and not raw.next.labels:
            raw, index = raw.next, 0
        if index >= len(raw.instrs) or raw.instrs[index].name != name:
            self.refuse(f"an instruction without its {name}")
        del raw.instrs[index]

    def following_name(self) -> str | None:
        """The next instruction's name, if only the present one leads to it, in the same region."""
        raw, index = self.raw, self.index + 1
        while index >= len(raw.instrs):
            if raw.next is None or raw.next.labels or raw.next.handler is not raw.handler:
                return None
            raw, index = raw.next, 0
        return raw.instrs[index].name

    def run_block(self, raw: _Raw) -> None:
        """Simulate one run.

        A handler needs the bottom of the stack as it was at the start of its block; where an
        instruction that cannot raise rearranges it (PUSH_EXC_INFO, SWAP), a new block begins.
        """
        self.enter(raw)
        depth = self.kept_depth(raw.handler) if raw.handler is not None else 0
        for self.index, instr in enumerate(raw.instrs):
            if depth and self.stack[:depth] != self.block.params[:depth]:
                self.continue_in_new_block()
            self.pos = instr.location
            rule = self.table.LIFT.get(instr.name) or self.table.JUMPS.get(instr.name)
            if rule is None:
                self.refuse(f"instruction {instr.name}", instr)
            rule(self, instr)
        if self.block.term is None:
            self.terminate("jump", None, ())
            self.edge(self.fallthrough)
        self.protect()

    def run(self, entry: _Raw) -> None:
        self.reach(entry, 0)
        while self.pending:
            self.run_block(self.pending.pop())


def _split(bytecode: Bytecode, jumps: Any) -> list[_Raw]:
    """Cut the instruction list into runs that end at labels, jumps and region boundaries."""
    raws = [_Raw()]
    handler: TryBegin | None = None

    def cut() -> None:
        last = raws[-1]
        if last.instrs or last.labels:
            last.next = _Raw()
            raws.append(last.next)
        raws[-1].handler = handler

    for item in list.__iter__(bytecode):
        if isinstance(item, Label):
            if raws[-1].instrs:
                cut()
            raws[-1].labels.append(item)
            raws[-1].handler = handler
        elif isinstance(item, TryBegin):
            handler = item
            cut()
        elif isinstance(item, TryEnd):
            handler = None
            cut()
        elif isinstance(item, Instr):
            raws[-1].instrs.append(item)
            if item.name in jumps:
                cut()
    return raws


def _strip_prologue(fn: Function, first: _Raw, table: Any) -> None:
    """Take off what lowering writes itself: cell creation and generator creation."""
    instrs = first.instrs
    kept: list[Instr] = []
    index = 0
    while index < len(instrs) and instrs[index].name in table.PROLOGUE:
        instr = instrs[index]
        fn.prologue.setdefault(instr.name, instr.location)
        index += 1
        if instr.name == "RETURN_GENERATOR":
            index += 1  # the POP_TOP of the value sent first
    kept.extend(instrs[index:])
    first.instrs[:] = kept


def free_variable(name: str, cellvars: list[str]) -> str:
    """A class body may have a cell and a free variable of one name (``__class__``)."""
    return name + CLASH if name in cellvars else name


def unclashed(code: CodeType) -> CodeType:
    """`code` with other names for the free variables that share one with a local.

    The `bytecode` package (0.19) leaves them out where it looks slots up by number.
    """
    if set(code.co_freevars).isdisjoint(code.co_varnames):
        return code
    names = [name + CLASH if name in code.co_varnames else name for name in code.co_freevars]
    return code.replace(co_freevars=tuple(names))


def _shell(code: CodeType) -> Function:
    """A `Function` with everything but its blocks."""
    first = code.co_consts[0] if code.co_consts else UNSET
    doc = first if first is None or isinstance(first, str) else UNSET
    return Function(
        name=code.co_name,
        qualname=code.co_qualname,
        filename=code.co_filename,
        firstlineno=code.co_firstlineno,
        argcount=code.co_argcount,
        posonlyargcount=code.co_posonlyargcount,
        kwonlyargcount=code.co_kwonlyargcount,
        flags=code.co_flags,
        varnames=list(code.co_varnames),
        cellvars=list(code.co_cellvars),
        freevars=[free_variable(name, list(code.co_cellvars)) for name in code.co_freevars],
        doc=doc,
        code=code,
    )


def _strip_stop_iteration(fn: Function, names: tuple[str, ...]) -> None:
    """Take off the handler that turns StopIteration into RuntimeError around a generator's body.

    Every generator of every version behaves so; only some have instructions for it.
    """
    for target in {block.handler.target for block in fn.blocks if block.handler is not None}:
        if tuple(op.name for op in target.all_ops()) != names:
            continue
        covered = [b for b in fn.blocks if b.handler is not None and b.handler.target is target]
        if any(block.handler.args for block in covered if block.handler is not None):
            continue
        for block in covered:
            block.handler = None
        fn.blocks.remove(target)
        fn.prologue["STOP_ITERATION"] = target.ops[0].pos


def lift(code: CodeType) -> Function:
    """Turn a code object into IR.

    Args:
        code: any code object of the running interpreter.

    Returns:
        The function in IR form; unreachable instructions are left out.

    Raises:
        UnsupportedBytecode: unknown version or instruction, or a stack that does not agree.
    """
    table = current()
    fn = _shell(code)
    try:
        bytecode = Bytecode.from_code(unclashed(code), conserve_exception_block_stackdepth=True)
    except (ValueError, LookupError, TypeError) as error:
        where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        raise UnsupportedBytecode(f"{where} cannot be decoded: {error}") from error
    raws = _split(bytecode, table.JUMPS)
    _strip_prologue(fn, raws[0], table)
    Simulation(fn, code, raws, table).run(raws[0])
    for raw in raws:
        if raw.block is not None:
            fn.blocks.append(raw.block)
            fn.blocks.extend(raw.edge_blocks)
    if fn.flags & GENERATORS:
        _strip_stop_iteration(fn, table.STOP_ITERATION)
    for index, block in enumerate(fn.blocks):
        block.id = index
    return fn
