"""Whether the running interpreter is one whose bytecode is known."""

from __future__ import annotations

import importlib.util
import sys

from .errors import UnsupportedBytecode

#: For each minor version of CPython that has tables, the number that its bytecode is marked with.
#: Pre-releases of a version have others, and may have other instructions.
MAGIC_NUMBERS: dict[tuple[int, int], int] = {
    (3, 11): 3495,
    (3, 12): 3531,
    (3, 13): 3571,
    (3, 14): 3627,
}


def known_version() -> tuple[int, int]:
    """Major and minor version of the running interpreter.

    Raises:
        UnsupportedBytecode: it is another implementation, another version, or its bytecode is
            marked as different from what the tables describe.
    """
    version = sys.version_info[:2]
    text = ".".join(map(str, version))
    if sys.implementation.name != "cpython" or version not in MAGIC_NUMBERS:
        raise UnsupportedBytecode(f"{sys.implementation.name} {text} is not supported by bcspec")
    found = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")
    if found != MAGIC_NUMBERS[version]:
        raise UnsupportedBytecode(
            f"this cpython {text} has bytecode number {found}, bcspec knows {MAGIC_NUMBERS[version]}"
        )
    return version
