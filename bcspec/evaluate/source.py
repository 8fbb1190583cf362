"""What is known about a code object before it is evaluated: its IR, liveness, join points."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType

from ..ir import Block, Function, Handler
from ..lift import lift
from .conversion import conversion

#: Names whose mention means that a function looks at frames, or at its own locals.
FRAME_OBSERVERS: frozenset[str] = frozenset(
    {
        "locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "_getframemodulename",
        "getouterframes", "getinnerframes", "f_locals", "f_back", "extract_stack", "format_stack", "print_stack",
        "walk_stack", "set_trace", "breakpoint",
    }
)  # fmt: skip

#: Why a function in which such an operation is reached stays generic.
LOOKS_AT_FRAMES = "it looks at frames or at its own locals"

_USES = {"load", "load_check", "load_clear", "delete", "delete_check"}
_KILLS = {"store", "load_clear", "delete", "delete_check"}
#: Operations of code that has a mapping of locals.
_NAMESPACE_OPS = {"load_name", "store_name", "import_star", "load_locals"}


class Source:
    """A lifted code object with the analyses that evaluation needs.

    Attributes:
        fn: the IR.
        local_names: its variables, in a fixed order.
        live: for each block the locals that may still be read at its start.
        joins: blocks with several ways in (normal edges).
        order: position of each block in reverse postorder: what leads to it comes before it.
        observers: operations that name something that looks at frames or locals.
        yields: the number of `yield_value` operations.
        returns: the number of `return_value` operations.
        size: the number of operations.
        groups: it has ``except*``, whose list of exceptions the interpreter trusts.
        remade: cell variables that get another cell while the function runs.
        unread: locals that are never read: they are there for whoever looks at the frame.
        conversion: what is around the whole body of a generator when it is unfolded.
    """

    def __init__(self, code: CodeType) -> None:
        fn = lift(code)
        self.fn: Function = fn
        self.code = code
        self.local_names = (*fn.varnames, *fn.shadows)
        self.joins = {block for block, preds in fn.predecessors().items() if len(preds) > 1}
        self.handlers = {block.handler.target for block in fn.blocks if block.handler is not None}
        self.live = _liveness(fn)
        self.order = _reverse_postorder(fn)
        self.conversion, self._converting = self._convert()
        names = [op.name for block in fn.blocks for op in block.all_ops()]
        self.size = len(names)
        self.groups = "prep_reraise_star" in names
        read = {op.arg for block in fn.blocks for op in block.ops if op.name in _USES}
        self.unread = frozenset(fn.varnames) - read
        self.returns = names.count("return_value")
        self.yields = names.count("yield_value")
        ops = [op for block in fn.blocks for op in block.ops]
        observing = frame_observers(code)
        self.observers = frozenset(op for op in ops if type(op.arg) is str and op.arg in observing)
        self.remade = frozenset(op.arg for op in ops if op.name in ("make_cell", "load_clear_cell"))
        self.uses_names = not _NAMESPACE_OPS.isdisjoint(names)

    def _convert(self) -> tuple[Handler | None, frozenset[Block]]:
        handler, blocks = conversion(self.fn)
        for number, block in enumerate(blocks, len(self.order)):
            self.order[block] = number
            self.live[block] = frozenset()
            if block.handler is not None:
                self.handlers.add(block.handler.target)
        if handler is not None:
            self.handlers.add(handler.target)
        return handler, frozenset(blocks)

    def handler_of(self, block: Block) -> Handler | None:
        """Where an exception in `block` goes when the function is unfolded."""
        if block.handler is None and block not in self._converting:
            return self.conversion
        return block.handler

    @property
    def observes_at_once(self) -> bool:
        """Whether every call looks at frames or locals."""
        return not self.observers.isdisjoint(self.fn.blocks[0].ops)

    @property
    def is_suspendable(self) -> bool:
        """Whether a call makes a generator or a coroutine."""
        return bool(self.fn.flags & (0x20 | 0x80 | 0x200))


def frame_observers(code: CodeType) -> frozenset[str]:
    """The names in `code` of what looks at frames or at the locals of the function that calls it."""
    names = frozenset(code.co_names)
    return names & (FRAME_OBSERVERS | {"stack"} if "inspect" in names else FRAME_OBSERVERS)


def _successors(block: Block) -> Iterator[Block]:
    for edge in block.edges:
        yield edge.target
    if block.handler is not None:
        yield block.handler.target


def _reverse_postorder(fn: Function) -> dict[Block, int]:
    """Depth-first numbering in which only the way back of a loop leads to a smaller number."""
    finished: list[Block] = []
    seen = {fn.blocks[0]}
    work = [(fn.blocks[0], list(_successors(fn.blocks[0])))]
    while work:
        block, successors = work[-1]
        if not successors:
            finished.append(block)
            work.pop()
            continue
        successor = successors.pop(0)
        if successor not in seen:
            seen.add(successor)
            work.append((successor, list(_successors(successor))))
    return {block: number for number, block in enumerate(reversed(finished))}


def _liveness(fn: Function) -> dict[Block, frozenset[str]]:
    """Backward may-be-read analysis of the locals.

    In a block with a handler a store does not end the life of the old value: the
    handler may be reached before it.
    """
    uses: dict[Block, set[str]] = {}
    kills: dict[Block, set[str]] = {}
    for block in fn.blocks:
        used: set[str] = set()
        killed: set[str] = set()
        for op in block.ops:
            if op.name in _USES and op.arg not in killed:
                used.add(op.arg)
            if op.name in _KILLS and block.handler is None:
                killed.add(op.arg)
        uses[block], kills[block] = used, killed
    live: dict[Block, frozenset[str]] = dict.fromkeys(fn.blocks, frozenset())
    changed = True
    while changed:
        changed = False
        for block in reversed(fn.blocks):
            out: set[str] = set()
            for successor in _successors(block):
                out |= live[successor]
            new = frozenset(uses[block] | (out - kills[block]))
            if new != live[block]:
                live[block] = new
                changed = True
    return live


#: Sources that are kept: the functions that many graphs share, and those of the graphs made last.
KEPT = 400

#: By identity, which the entry itself keeps taken: hashing a code object reads all of it.
_recent: OrderedDict[int, Source] = OrderedDict()


def source_of(code: CodeType) -> Source:
    """The analysed IR of `code`, kept for the next graph that unfolds the same function.

    Raises:
        UnsupportedBytecode: `code` cannot be lifted.
    """
    source = _recent.pop(id(code), None) or Source(code)
    _recent[id(code)] = source
    while len(_recent) > KEPT:
        with suppress(KeyError):  # another thread was faster
            _recent.popitem(last=False)
    return source
