"""Which table serves the running interpreter."""

from __future__ import annotations

import sys
from functools import cache

from ..errors import VerificationError
from . import py311, py312, py313
from .model import Table
from .prepare import Prepared

#: One module per minor version of CPython.
TABLES: dict[tuple[int, int], Table] = {
    table.version: table for table in (py311.TABLE, py312.TABLE, py313.TABLE)
}


@cache
def current() -> Prepared:
    """The opcodes of the running interpreter.

    Raises:
        VerificationError: this version of CPython, or another implementation, is unknown.
    """
    table = TABLES.get(sys.version_info[:2])
    if table is None or sys.implementation.name != "cpython":
        version = ".".join(map(str, sys.version_info[:2]))
        raise VerificationError(f"no verifier for {sys.implementation.name} {version}")
    return Prepared(table)
