"""Which table serves the running interpreter."""

from __future__ import annotations

from functools import cache

from ..errors import UnsupportedBytecode, VerificationError
from ..interpreter import known_version
from . import py311, py312, py313, py314
from .model import Table
from .prepare import Prepared

#: One module per minor version of CPython.
TABLES: dict[tuple[int, int], Table] = {
    table.version: table for table in (py311.TABLE, py312.TABLE, py313.TABLE, py314.TABLE)
}


@cache
def current() -> Prepared:
    """The opcodes of the running interpreter.

    Raises:
        VerificationError: its bytecode is unknown.
    """
    try:
        return Prepared(TABLES[known_version()])
    except UnsupportedBytecode as error:
        raise VerificationError(str(error)) from error
