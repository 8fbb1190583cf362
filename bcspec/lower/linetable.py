"""The location table, written again where the `bytecode` package writes one that misleads.

Source of the format: ``Objects/locations.md`` in CPython.  An entry begins with a byte whose top
bit is set and goes on with bytes whose top bit is not; readers of lines alone rely on it.  The
one-line form holds its columns as plain bytes, so it is for columns below 128; `bytecode` (0.19)
uses it up to 255, and every line after such an entry is wrong in `co_lines` and in tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from types import CodeType

Position = tuple[int | None, int | None, int | None, int | None]

_NO_COLUMNS, _LONG, _NOTHING = 13, 14, 15
_ONE_LINE = 10
_MOST_UNITS = 8


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 64:
        out.append(0x40 | value & 63)
        value >>= 6
    out.append(value)
    return bytes(out)


def _svarint(value: int) -> bytes:
    return _varint((-value << 1) | 1 if value < 0 else value << 1)


def _form(position: Position, previous: int) -> tuple[int, bytes]:
    """The form's number and the bytes after the first, for one position."""
    line, end_line, column, end_column = position
    if line is None:
        return _NOTHING, b""
    delta = line - previous
    if column is None or end_column is None or end_line is None:
        return _NO_COLUMNS, _svarint(delta)
    if end_line == line:
        width = end_column - column
        if delta == 0 and column < 80 and 0 <= width < 16:
            return column >> 3, bytes(((column & 7) << 4 | width,))
        if 0 <= delta < 3 and column < 128 and end_column < 128:
            return _ONE_LINE + delta, bytes((column, end_column))
    tail = _varint(end_line - line) + _varint(column + 1) + _varint(end_column + 1)
    return _LONG, _svarint(delta) + tail


def encode(positions: Iterable[Position], firstlineno: int) -> bytes:
    """A location table.

    Args:
        positions: one per code unit, caches included.
        firstlineno: the line of the code object, from which the first entry counts.

    Returns:
        What `co_linetable` holds.
    """
    table = bytearray()
    previous = firstlineno
    for position, units in groupby(positions):
        count = sum(1 for _ in units)
        while count:
            size = min(count, _MOST_UNITS)
            number, tail = _form(position, previous)
            table.append(0x80 | number << 3 | size - 1)
            table += tail
            previous = position[0] if position[0] is not None else previous
            count -= size
    return bytes(table)


def repaired(code: CodeType) -> CodeType:
    """`code` with a location table that all readers agree on.

    Args:
        code: a code object that the `bytecode` package made.

    Returns:
        The same object where no column is past 127, which is nearly always.
    """
    if all((end or 0) < 128 for _, _, _, end in code.co_positions()):
        return code
    return code.replace(co_linetable=encode(code.co_positions(), code.co_firstlineno))
