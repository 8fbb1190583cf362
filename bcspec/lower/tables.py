"""Which lowering table serves the running interpreter."""

from __future__ import annotations

import sys
from types import ModuleType

from ..errors import UnsupportedBytecode
from . import py311, py312, py313

#: One module per minor version of CPython; each has what `py311` has.
TABLES: dict[tuple[int, int], ModuleType] = {(3, 11): py311, (3, 12): py312, (3, 13): py313}


def current() -> ModuleType:
    """The table of the running interpreter.

    Raises:
        UnsupportedBytecode: this version of CPython, or another implementation, is unknown.
    """
    table = TABLES.get(sys.version_info[:2])
    if table is None or sys.implementation.name != "cpython":
        version = ".".join(map(str, sys.version_info[:2]))
        raise UnsupportedBytecode(f"{sys.implementation.name} {version} is not supported by bcspec")
    return table
