"""What a generator's frame does with a StopIteration that would leave it (PEP 479).

The interpreter turns it into RuntimeError, some versions with instructions, some without; the
frame of an unfolded generator has a handler in IR form instead.  It is what the compiler makes of::

    try: ...
    except StopIteration as error:
        raise RuntimeError("generator raised StopIteration") from error

but for the exception being looked at before it counts as being handled.
"""

from __future__ import annotations

from typing import Any

from ..ir import Block, Edge, Function, Handler, Op, Value
from . import models

MESSAGE = "generator raised StopIteration"

#: Operations that may raise, but never StopIteration.
NEVER_STOPS: frozenset[str] = frozenset(
    "jump load_check delete_check load_deref delete_deref load_global delete_global".split()
)


class _Writer:
    """Writes blocks whose operations stand at the beginning of the generator."""

    def __init__(self, fn: Function) -> None:
        self.code = fn.code
        self.pos: Any = fn.prologue.get("RESUME")
        self.blocks: list[Block] = []

    def block(self, params: int, handler: Handler | None = None) -> Block:
        block = Block(-1, [Value() for _ in range(params)], handler=handler)
        self.blocks.append(block)
        return block

    def emit(
        self, block: Block, name: str, arg: Any = None, operands: Any = (), results: int = 0
    ) -> tuple[Value, ...]:
        op = Op(name, arg, operands, [Value() for _ in range(results)], self.pos, self.code)
        block.ops.append(op)
        return op.results

    def end(self, block: Block, name: str, arg: Any, operands: Any, *edges: Edge) -> None:
        block.term = Op(name, arg, operands, (), self.pos, self.code)
        block.edges.extend(edges)


def conversion(fn: Function) -> tuple[Handler | None, list[Block]]:
    """The handler around the whole body of an unfolded generator, and its blocks.

    Args:
        fn: lifted IR of any function; only plain generators have one, and of these not the models
            of builtins, which let StopIteration through.
    """
    if not fn.flags & 0x20 or fn.filename == models.__file__:
        return None, []
    writer = _Writer(fn)
    test, other, stop = writer.block(1), writer.block(1), writer.block(1)
    cleanup = writer.block(3)
    (error,) = test.params
    (cls,) = writer.emit(test, "const", StopIteration, (), 1)
    (stops,) = writer.emit(test, "check_exc_match", None, (error, cls), 1)
    writer.end(test, "branch", "false", (stops,), Edge(other, (error,)), Edge(stop, (error,)))
    writer.end(other, "reraise", None, other.params)
    before, error = writer.emit(stop, "push_exc_info", None, stop.params, 2)
    convert = writer.block(2)
    convert.handler = Handler(cleanup, (convert.params[0],), lasti=True)
    writer.end(stop, "jump", None, (), Edge(convert, (before, error)))
    (null,) = writer.emit(convert, "null", None, (), 1)
    (kind,) = writer.emit(convert, "const", RuntimeError, (), 1)
    (text,) = writer.emit(convert, "const", MESSAGE, (), 1)
    (new,) = writer.emit(convert, "call", (), (null, kind, text), 1)
    (cause,) = writer.emit(convert, "copy", None, (convert.params[1],), 1)
    writer.end(convert, "raise_varargs", 2, (new, cause))
    before, lasti, error = cleanup.params
    (again,) = writer.emit(cleanup, "copy", None, (before,), 1)
    writer.emit(cleanup, "pop_except", None, (again,))
    writer.end(cleanup, "reraise", None, (lasti, error))
    return Handler(test), writer.blocks
