"""The IR as text that a person can read."""

from __future__ import annotations

from types import CodeType
from typing import Any

from .model import Block, Edge, Function, Op, Value


class _Names:
    """Numbers values and blocks in order of appearance, so that equal IR prints equally."""

    def __init__(self, blocks: list[Block]) -> None:
        self._values: dict[Value, str] = {}
        self._blocks = {block: f"b{index}" for index, block in enumerate(blocks)}

    def value(self, value: Value) -> str:
        return self._values.setdefault(value, f"v{len(self._values)}")

    def values(self, values: Any) -> str:
        return ", ".join(self.value(value) for value in values)

    def block(self, block: Block) -> str:
        return self._blocks.get(block, "b?")

    def edge(self, edge: Edge) -> str:
        args = f"({self.values(edge.args)})" if edge.args else ""
        return self.block(edge.target) + args


def _immediate(arg: Any) -> str:
    if isinstance(arg, CodeType):
        return f"<code {arg.co_name}>"
    text = repr(arg)
    return text if len(text) <= 60 else f"<{type(arg).__name__}>"


def _operation(op: Op, names: _Names, with_lines: bool) -> str:
    text = op.name
    if op.arg is not None or op.name == "const":
        shown = op.arg if isinstance(op.arg, str) and op.name != "const" else _immediate(op.arg)
        text += f" {shown}"
    if op.operands:
        text += f" ({names.values(op.operands)})"
    if op.results:
        text = f"{names.values(op.results)} = {text}"
    if with_lines and op.line is not None:
        text = f"{text:<48}  # line {op.line}"
    return text


def format_function(fn: Function, *, lines: bool = False) -> str:
    """Print `fn` as text.

    Args:
        fn: the function to print.
        lines: add the source line of each operation.

    Returns:
        One operation a line, blocks with their parameters and handlers.
    """
    names = _Names(fn.blocks)
    out = [f"function {fn.name}({', '.join(fn.arg_names)})"]
    for block in fn.blocks:
        head = names.block(block)
        if block.params:
            head += f"({names.values(block.params)})"
        if block.handler is not None:
            handler = block.handler
            extra = [*map(names.value, handler.args), *(["lasti"] if handler.lasti else []), "exc"]
            head += f"  on error: {names.block(handler.target)}({', '.join(extra)})"
        out.append(f"{head}:")
        out.extend(f"    {_operation(op, names, lines)}" for op in block.ops)
        if block.term is not None:
            text = _operation(block.term, names, False)
            if block.edges:
                text += " -> " + ", ".join(names.edge(edge) for edge in block.edges)
            out.append(f"    {text}")
    return "\n".join(out) + "\n"
