"""Which lowering table serves the running interpreter."""

from __future__ import annotations

from types import ModuleType

from ..interpreter import known_version
from . import py311, py312, py313, py314

#: One module per minor version of CPython; each has what `py311` has.
TABLES: dict[tuple[int, int], ModuleType] = {
    (3, 11): py311,
    (3, 12): py312,
    (3, 13): py313,
    (3, 14): py314,
}


def current() -> ModuleType:
    """The table of the running interpreter.

    Raises:
        UnsupportedBytecode: its bytecode is unknown.
    """
    return TABLES[known_version()]
