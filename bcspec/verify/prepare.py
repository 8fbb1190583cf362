"""A version table turned into arrays indexed by opcode, once per process."""

from __future__ import annotations

import opcode
from collections.abc import Callable
from functools import cache
from types import CodeType

from .model import Effect, Flow, Operand, Spec, Table

#: Larger than any argument.
UNLIMITED = 1 << 32

#: Operands that index a slot of the frame.
SLOTS = (Operand.PLAIN, Operand.CELL, Operand.DEREF)


class Prepared:
    """The running interpreter's opcodes.  Attributes named after `Spec` are lists by opcode."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.spec: list[Spec | None] = [table.specs.get(name) for name in opcode.opname]
        self.caches: list[int] = list(opcode._inline_cache_entries)  # type: ignore[attr-defined]
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
        self._by_operand = {
            operand: [op for op, spec in enumerate(self.spec) if spec and spec.operand is operand]
            for operand in Operand
        }
        self.slot_operand = [
            spec.operand if spec and spec.operand in SLOTS else None for spec in self.spec
        ]
        self.only_prologue = _numbers(table.only_prologue)
        self.prologue = _numbers(table.prologue)
        self.unchecked = _numbers(table.unchecked)
        self.resume = opcode.opmap["RESUME"]
        self.copy = opcode.opmap["COPY"]

    def limits(self, code: CodeType, slots: int) -> list[int]:
        """Upper bounds of the arguments, by opcode, in a code object with this many slots."""
        limit = self._limit.copy()
        names, depth = len(code.co_names), code.co_stacksize + 1
        sizes = {
            Operand.CONST: len(code.co_consts),
            Operand.NAME: names,
            Operand.NAME_SHIFTED: 2 * names,
            Operand.COUNT: depth,
            Operand.TWO_COUNTS: depth << 8,
            **dict.fromkeys(SLOTS, slots),
        }
        for operand, size in sizes.items():
            for op in self._by_operand[operand]:
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
