"""A version table turned into arrays indexed by opcode, once per process."""

from __future__ import annotations

import opcode
from collections.abc import Callable
from functools import cache
from types import CodeType

from .model import Effect, Flow, Operand, Spec, Table

#: Larger than any argument.
UNLIMITED = 1 << 32

#: What a slot of the frame is; an argument that is also a cell has both bits.
PLAIN, CELL, FREE = 1, 2, 4

#: Operands that index a slot of the frame, and what the slot may be.
ACCEPTED_BITS = {
    Operand.PLAIN: frozenset({PLAIN}),
    Operand.CELL: frozenset({CELL, CELL | PLAIN}),
    Operand.SAVED: frozenset({PLAIN, CELL, CELL | PLAIN}),
    Operand.SLOT: frozenset({PLAIN, CELL, CELL | PLAIN, FREE}),
    Operand.DEREF: frozenset({CELL, CELL | PLAIN, FREE}),
}

#: Operands with a bound of the code object's, in the order of `Prepared.limits`.
_SIZED_BY_CODE = (
    (Operand.CONST,),
    (Operand.NAME,),
    (Operand.NAME_SHIFTED,),
    (Operand.NAME_SHIFTED_TWICE,),
    (Operand.COUNT,),
    (Operand.TWO_COUNTS,),
    tuple(ACCEPTED_BITS),
)


def cache_entries() -> list[int]:
    """How many inline cache entries follow each instruction, by opcode."""
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, list):
        return list(entries[:256])
    return [entries.get(name, 0) for name in opcode.opname[:256]]  # since CPython 3.13


class Prepared:
    """The running interpreter's opcodes.  Attributes named after `Spec` are lists by opcode."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.spec: list[Spec | None] = [table.specs.get(name) for name in opcode.opname[:256]]
        self.caches = cache_entries()
        self.effect: list[Effect | None] = [
            spec.effect if spec and isinstance(spec.effect, Effect) else None for spec in self.spec
        ]
        self.sized = [
            _remembered(spec.effect) if spec and callable(spec.effect) else None
            for spec in self.spec
        ]
        self.action = [spec.action if spec else None for spec in self.spec]
        self.check = [spec.check if spec else None for spec in self.spec]
        self.raises = [spec.raises if spec else True for spec in self.spec]
        self.flow = [spec.flow if spec else Flow.STOP for spec in self.spec]
        self.jumps = [flow in (Flow.JUMP, Flow.BRANCH, Flow.SPLIT) for flow in self.flow]
        self.direction = [-1 if spec and spec.backward else 1 for spec in self.spec]
        self.lowest = [spec.lowest if spec else UNLIMITED for spec in self.spec]
        self._limit = [_limit(spec) for spec in self.spec]
        self._sized_by_code = [self._having(*operands) for operands in _SIZED_BY_CODE]
        self.slot_bits = [ACCEPTED_BITS.get(spec.operand) if spec else None for spec in self.spec]
        self.only_prologue = _numbers(table.only_prologue)
        self.prologue = _numbers(table.prologue)
        self.unchecked = _numbers(table.unchecked)
        self.resume = opcode.opmap["RESUME"]
        self.copy = opcode.opmap["COPY"]

    def _having(self, *operands: Operand) -> list[int]:
        return [op for op, spec in enumerate(self.spec) if spec and spec.operand in operands]

    def limits(self, code: CodeType, slots: int) -> list[int]:
        """Upper bounds of the arguments, by opcode, in a code object with this many slots."""
        limit = self._limit.copy()
        names, depth = len(code.co_names), code.co_stacksize + 1
        sizes = (len(code.co_consts), names, 2 * names, 4 * names, depth, depth << 8, slots)
        for ops, size in zip(self._sized_by_code, sizes, strict=True):
            for op in ops:
                limit[op] = size
        return limit


def _remembered(rule: Callable[[int], Effect]) -> Callable[[int], Effect]:
    return cache(rule)


def _limit(spec: Spec | None) -> int:
    if spec is None:
        return 0
    return spec.limit if spec.operand is Operand.RANGE else UNLIMITED


def _numbers(names: frozenset[str]) -> frozenset[int]:
    return frozenset(opcode.opmap[name] for name in names)
