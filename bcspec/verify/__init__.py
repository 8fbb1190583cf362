"""The bytecode verifier: would running this code object be safe for the interpreter?

CPython trusts its compiler: a wrong depth, a NULL in the wrong place or a stale exception-table
entry corrupts memory.  `verify` interprets the finished *bytecode* abstractly and refuses whatever
the interpreter would not survive.  It knows `dis` and `opcode` only, neither the IR nor the
encoder, so that one mistake is not made twice.

* `decode` takes the code object apart and checks what can be checked without running;
* `interp` is the abstract interpreter, over the `kinds` of stack slots;
* `py3xx` are the tables, one per CPython version, in the terms of `model` and with `actions`.

What it leaves to the interpreter's own checks: types of ordinary operands, names that are not
defined, unbound locals where reading them raises.
"""

from __future__ import annotations

import dis
from types import CodeType

from .decode import Wordcode
from .interp import Machine
from .prepare import Prepared
from .tables import current

__all__ = ["missing_lines", "verify"]


def verify(code: CodeType, *, prepared: Prepared | None = None) -> None:
    """Accept a code object that the interpreter can run safely.

    Args:
        code: a finished code object; those in its constants are not looked into.
        prepared: the opcodes to judge by; the running interpreter's by default.

    Raises:
        VerificationError: it is not accepted; the text names function, file, line, byte offset,
            instruction and reason.
    """
    words = Wordcode(code, prepared or current())
    words.check_neighbours()
    words.check_prologue()
    words.check_line_table()
    Machine(words).run()


def missing_lines(code: CodeType) -> list[int]:
    """Where a traceback would show no line.

    Args:
        code: any code object.

    Returns:
        Byte offsets of the instructions that can raise and have no line number.
    """
    raises = current().raises
    lines: dict[int, int | None] = {}
    for start, end, line in code.co_lines():
        lines.update(dict.fromkeys(range(start, end, 2), line))
    return [
        instr.offset
        for instr in dis.get_instructions(code)
        if raises[instr.opcode] and lines.get(instr.offset) is None
    ]
