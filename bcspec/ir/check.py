"""The IR checker: run after every stage in tests."""

from __future__ import annotations

from .model import Block, Function, Op, Value
from .ops import OPS


class IRCheckError(AssertionError):
    """The IR breaks one of its own rules: a fault of bcspec, never of the user's code."""


_EDGE_COUNT = {"jump": 1, "branch": 2, "for_iter": 2, "send": 2}


class _BlockChecker:
    def __init__(self, fn: Function, block: Block) -> None:
        self.fn = fn
        self.block = block
        self.live: dict[Value, None] = dict.fromkeys(block.params)

    def fail(self, message: str) -> None:
        index = self.fn.blocks.index(self.block)
        raise IRCheckError(f"{self.fn.qualname}, block b{index}: {message}")

    def consume(self, op: Op) -> None:
        spec = OPS.get(op.name)
        if spec is None:
            self.fail(f"unknown operation {op.name}")
            return
        if spec.pops is not None and len(op.operands) != spec.pops:
            self.fail(f"{op.name} takes {spec.pops} operands, has {len(op.operands)}")
        if spec.pushes is not None and len(op.results) != spec.pushes:
            self.fail(f"{op.name} gives {spec.pushes} results, has {len(op.results)}")
        for value in op.operands:
            if value not in self.live:
                self.fail(f"{op!r} uses a value that is not alive")
        for value in op.operands[op.keeps :]:
            if self.live.pop(value, value) is value:
                self.fail(f"{op!r} consumes a value twice")
        for value in op.results:
            self.live[value] = None

    def check_handler(self, op: Op) -> None:
        handler = self.block.handler
        if handler is None or not op.raises or op.name == "jump":
            return  # a jump needs its handler only where it leads back, with the stack in order
        for value in handler.args:
            if value not in self.live:
                self.fail(f"after {op!r} a value that the handler needs is gone")

    def check_edges(self, term: Op) -> None:
        expected = _EDGE_COUNT.get(term.name, 0)
        if len(self.block.edges) != expected:
            self.fail(f"{term.name} needs {expected} edges, has {len(self.block.edges)}")
        for position, edge in enumerate(self.block.edges):
            alive = dict(self.live)
            if position == 1 and term.name in ("for_iter", "send"):
                # Exhausted: the iterator is gone, and only `send` has a result.
                alive.pop(term.operands[0], None)
                if term.name == "for_iter":
                    alive.pop(term.results[0], None)
            if set(edge.args) != set(alive) or len(edge.args) != len(alive):
                self.fail(f"edge {position} of {term!r} does not pass exactly the live values")
            if len(edge.args) != len(edge.target.params):
                self.fail(f"edge {position} of {term!r} passes {len(edge.args)} values")

    def run(self) -> None:
        for op in self.block.ops:
            if OPS[op.name].terminator:
                self.fail(f"terminator {op.name} inside a block")
            self.consume(op)
            self.check_handler(op)
        term = self.block.term
        if term is None:
            self.fail("no terminator")
            return
        if not OPS[term.name].terminator:
            self.fail(f"{term.name} ends the block")
        self.consume(term)
        self.check_handler(term)
        self.check_edges(term)


def check(fn: Function) -> None:
    """Check that every value is defined once, consumed once on each path, and that edges agree.

    Args:
        fn: the function to check.

    Raises:
        IRCheckError: naming function, block and operation.
    """
    if fn.blocks and fn.blocks[0].params:
        raise IRCheckError(f"{fn.qualname}: the entry block has parameters")
    known = set(fn.blocks)
    for block in fn.blocks:
        targets = [edge.target for edge in block.edges]
        if block.handler is not None:
            handler = block.handler
            targets.append(handler.target)
            if len(handler.target.params) != len(handler.args) + handler.lasti + 1:
                raise IRCheckError(f"{fn.qualname}: a handler's parameters do not fit")
        if not known.issuperset(targets):
            raise IRCheckError(f"{fn.qualname}: an edge leads out of the function")
        _BlockChecker(fn, block).run()
