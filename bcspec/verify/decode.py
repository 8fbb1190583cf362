"""A code object taken apart: instructions, jump targets, exception table, line table.

Everything that can be judged without interpreting is judged here.  Formats: CPython's
``Objects/exception_handling_notes.txt`` and ``Objects/locations.md``.
"""

from __future__ import annotations

import dis
import opcode
from dataclasses import dataclass
from types import CodeType
from typing import NoReturn

from ..errors import VerificationError
from .model import Effect, Operand
from .prepare import CELL, FREE, PLAIN, Prepared

_EXTENDED_ARG = opcode.EXTENDED_ARG
_FOR_ITER, _GET_ANEXT = opcode.opmap["FOR_ITER"], opcode.opmap["GET_ANEXT"]

#: Generator, coroutine, asynchronous generator.
_GENERATORS = 0x20 | 0x80 | 0x200

#: How many numbers follow the first byte of a line-table entry, by the entry's form; the two named
#: forms have numbers of variable length.
_NUMBERS = (*(1,) * 10, 2, 2, 2, 1, 4, 0)
_NO_COLUMNS, _LONG = 13, 14


@dataclass(frozen=True, slots=True)
class Handler:
    """One entry of the exception table; `target` is an instruction index."""

    target: int
    depth: int
    lasti: bool


class Wordcode:
    """Instructions in parallel lists; index `i` is the i-th instruction, caches left out.

    Attributes:
        code: the code object.
        slots: PLAIN, CELL and FREE bits by slot of the frame.
        starts: code unit where the instruction (with its EXTENDED_ARGs) begins.
        ops, args, effects: of each instruction.
        targets: index of the jump target, or -1.
        handlers: what covers each instruction.
        joins: the instruction is reached by a jump or as a handler.
    """

    def __init__(self, code: CodeType, prepared: Prepared) -> None:
        self.code = code
        self.prepared = prepared
        self.slots = slots_of(code)
        self.starts: list[int] = []
        self.ops: list[int] = []
        self.args: list[int] = []
        self.ends: list[int] = []
        self.effects: list[Effect] = []
        self._read_instructions()
        count = len(self.ops)
        self.index_of = [-1] * (len(code.co_code) // 2 + 1)
        for index, start in enumerate(self.starts):
            self.index_of[start] = index
        self.targets = [-1] * count
        self.joins = [False] * count
        self._read_jumps()
        self.handlers: list[Handler | None] = [None] * count
        self._read_exception_table()

    def name(self, index: int) -> str:
        """The instruction's name; empty past the last."""
        return opcode.opname[self.ops[index]] if index < len(self.ops) else ""

    def name_of_slot(self, slot: int) -> str:
        """The variable that a slot of the frame is for."""
        code = self.code
        own = [name for name in code.co_cellvars if name not in code.co_varnames]
        return (*code.co_varnames, *own, *code.co_freevars)[slot]

    def width(self, index: int) -> int:
        """Code units of the instruction and its caches, EXTENDED_ARGs left out."""
        return 1 + self.prepared.caches[self.ops[index]]

    # -- errors ----------------------------------------------------------------------

    def fail(self, index: int, reason: str) -> NoReturn:
        """Refuse the code object because of instruction `index` (-1: the code as a whole)."""
        code = self.code
        where = f"{code.co_qualname} ({code.co_filename}"
        if index < 0:
            raise VerificationError(f"{where}, line {code.co_firstlineno}): {reason}")
        unit = self.ends[index] - self.prepared.caches[self.ops[index]] - 1
        raise VerificationError(
            f"{where}, line {_line_at(code, 2 * unit)}), offset {2 * unit}, "
            f"{dis.opname[self.ops[index]]} {self.args[index]}: {reason}"
        )

    # -- instructions ----------------------------------------------------------------

    def _read_instructions(self) -> None:
        code, prepared = self.code, self.prepared
        raw = code.co_code
        if not raw or len(raw) % 2:
            self.fail(-1, f"{len(raw)} bytes of code")
        limits = prepared.limits(code, len(self.slots))
        lowest, fixed, sized = prepared.lowest, prepared.effect, prepared.sized
        caches, slots, slot_bits = prepared.caches, self.slots, prepared.slot_bits
        starts, ops, args, ends = self.starts, self.ops, self.args, self.ends
        effects, size, at = self.effects, len(raw), 0
        while at < size:
            starts.append(at >> 1)
            op, arg = raw[at], raw[at + 1]
            at += 2
            while op == _EXTENDED_ARG and at < size:
                op, arg = raw[at], arg << 8 | raw[at + 1]
                at += 2
            skip = caches[op]
            ops.append(op)
            args.append(arg)
            ends.append((at >> 1) + skip)
            if not lowest[op] <= arg < limits[op]:
                self._refuse_argument(op, arg)
            accepted = slot_bits[op]
            if accepted is not None and slots[arg] not in accepted:
                what = prepared.table.specs[opcode.opname[op]].operand.value
                self.fail(len(ops) - 1, f"slot {arg} is not a {what}")
            if skip:  # CACHE is opcode 0
                at += 2 * skip
                if at > size or any(raw[at - 2 * skip : at : 2]):
                    self.fail(len(ops) - 1, f"{skip} inline cache entries expected after it")
            effect = fixed[op]
            effects.append(sized[op](arg) if effect is None else effect)  # type: ignore[misc]

    def _refuse_argument(self, op: int, arg: int) -> NoReturn:
        spec = self.prepared.spec[op]
        if spec is None:
            self.fail(len(self.ops) - 1, "not an instruction that compiled code may hold")
        what = "argument" if spec.operand is Operand.RANGE else spec.operand.value
        self.fail(len(self.ops) - 1, f"{what} {arg} is out of range")

    def _read_jumps(self) -> None:
        jumps, direction = self.prepared.jumps, self.prepared.direction
        ends, index_of = self.ends, self.index_of
        for index, op in enumerate(self.ops):
            if jumps[op]:
                unit = ends[index] + direction[op] * self.args[index]
                target = index_of[unit] if 0 <= unit < len(index_of) else -1
                if target < 0:
                    self.fail(index, f"jump to offset {2 * unit}, where no instruction begins")
                self.targets[index] = target
                self.joins[target] = True

    def check_neighbours(self) -> None:
        """What instructions require of those next to them.

        Raises:
            VerificationError: an instruction does not find what it needs.
        """
        checks = self.prepared.check
        for index, op in enumerate(self.ops):
            check = checks[op]
            if check is not None:
                check(self, index)

    def check_prologue(self) -> None:
        """The frame is complete (free variables, cells, generator) at the first RESUME.

        Raises:
            VerificationError: something is missing there, or comes again later.
        """
        prepared, ops, code = self.prepared, self.ops, self.code
        if prepared.resume not in ops:
            self.fail(-1, "no RESUME")
        body = ops.index(prepared.resume)
        for index, op in enumerate(ops):
            if op not in prepared.prologue if index < body else op in prepared.only_prologue:
                self.fail(
                    index, "not allowed " + ("before" if index < body else "after") + " RESUME"
                )
            if index < body and self.joins[index]:
                self.fail(index, "a jump leads into the prologue")
        if self.args[body]:
            self.fail(body, "the first RESUME is not that of a function's start")
        if code.co_freevars and self.name(0) != "COPY_FREE_VARS":
            self.fail(0, "free variables, but no COPY_FREE_VARS at the start")
        names = [opcode.opname[op] for op in ops[:body]]
        if bool(code.co_flags & _GENERATORS) != ("RETURN_GENERATOR" in names):
            self.fail(body, "RETURN_GENERATOR and the code's flags do not agree")

    # -- tables ----------------------------------------------------------------------

    def _read_exception_table(self) -> None:
        table = self.code.co_exceptiontable
        at = after = 0
        while at < len(table):
            if not table[at] & 0x80:
                self.fail(-1, f"exception table: no entry begins at byte {at}")
            values: list[int] = []
            for _ in range(4):
                value, at = self._varint(table, at, len(values) == 0)
                values.append(value)
            start, length, target, packed = values
            first, last = self._covered(start), self._covered(start + length)
            if first < 0 or last <= first or start < after:
                self.fail(-1, f"exception table: bad range {2 * start}..{2 * (start + length)}")
            handler = Handler(self._boundary(target), packed >> 1, bool(packed & 1))
            if not 0 <= handler.target < len(self.ops):
                self.fail(-1, f"exception table: no instruction begins at handler {2 * target}")
            self.handlers[first:last] = [handler] * (last - first)
            self.joins[handler.target] = True
            after = start + length

    def _varint(self, table: bytes, at: int, opening: bool) -> tuple[int, int]:
        """Six bits a byte, most significant first; bit 7 marks the first byte of an entry."""
        value, more, mark = 0, True, 0x80 if opening else 0
        while more:
            if at >= len(table) or table[at] & 0x80 != mark:
                self.fail(-1, f"exception table: malformed number at byte {at}")
            value = value << 6 | table[at] & 0x3F
            more = bool(table[at] & 0x40)
            mark = 0
            at += 1
        return value, at

    def _covered(self, unit: int) -> int:
        """Index of the instruction that a range edge at `unit` belongs to.

        An edge may stand between an instruction and its EXTENDED_ARG prefix: the interpreter
        looks ranges up by the instruction itself.
        """
        code = self.code.co_code
        while 0 < unit < len(self.index_of) and code[2 * unit - 2] == _EXTENDED_ARG:
            unit -= 1
        return self._boundary(unit)

    def _boundary(self, unit: int) -> int:
        """Index of the instruction that begins at a code unit; one past the last at the end."""
        if unit == len(self.index_of) - 1:
            return len(self.ops)
        return self.index_of[unit] if 0 <= unit < len(self.index_of) else -1

    def check_line_table(self) -> None:
        """Entries are well formed and cover the code exactly.

        Raises:
            VerificationError: they do not.
        """
        table, at, units = self.code.co_linetable, 0, 0
        size = len(table)
        while at < size:
            head, start = table[at], at + 1
            at = start
            while at < size and not table[at] & 0x80:
                at += 1
            numbers, kind = at - start, head >> 3 & 15
            if kind in (_NO_COLUMNS, _LONG):
                numbers = sum(not byte & 0x40 for byte in table[start:at])
                numbers = -1 if at == start or table[at - 1] & 0x40 else numbers
            if not head & 0x80 or numbers != _NUMBERS[kind]:
                self.fail(-1, f"line table: malformed entry at byte {start - 1}")
            units += (head & 7) + 1
        if units != len(self.index_of) - 1:
            self.fail(-1, f"line table covers {units} of {len(self.index_of) - 1} code units")


def slots_of(code: CodeType) -> list[int]:
    """PLAIN, CELL and FREE bits of the frame's slots, laid out as `PyCode_New` does it."""
    slots = [PLAIN] * len(code.co_varnames)
    for name in code.co_cellvars:
        if name in code.co_varnames:
            slots[code.co_varnames.index(name)] |= CELL
        else:
            slots.append(CELL)
    return slots + [FREE] * len(code.co_freevars)


def takes_iterator(code: CodeType) -> bool:
    """The code of a comprehension or generator expression trusts its argument to be an iterator.

    Its first loop is the one over the argument; asynchronous loops check what they are given.
    """
    if not code.co_argcount or code.co_varnames[0] != ".0":
        return False
    ops = code.co_code[::2]
    first, asynchronous = ops.find(_FOR_ITER), ops.find(_GET_ANEXT)
    return first >= 0 and not 0 <= asynchronous < first


def _line_at(code: CodeType, offset: int) -> int | None:
    for start, end, line in code.co_lines():
        if start <= offset < end:
            return line
    return None
