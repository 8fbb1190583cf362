"""Residual IR in the notation of Python, as near as it gets."""

from __future__ import annotations

import types
from typing import Any

from ..ir import Block, Function, Op, Value

_UNARY = {"unary_negative": "-", "unary_positive": "+", "unary_invert": "~", "unary_not": "not "}


class _Writer:
    """Turns blocks into lines; a value is the text of the expression that makes it."""

    def __init__(self, fn: Function, constants: dict[str, Any]) -> None:
        self.fn = fn
        self.constants = constants
        self.names: dict[Value, str] = {}
        self.blocks = {block: f"L{index}" for index, block in enumerate(fn.blocks)}
        self.lines: list[str] = []

    def text(self, value: Value) -> str:
        return self.names.get(value, "_")

    def texts(self, values: Any) -> list[str]:
        return [self.text(value) for value in values]

    def block(self, block: Block) -> None:
        for position, value in enumerate(block.params):
            self.names.setdefault(value, f"s{position}")
        self.lines.append(f"  {self.blocks[block]}:")
        for op in block.ops:
            self.operation(op)
        self.terminator(block)

    def operation(self, op: Op) -> None:
        operands = self.texts(op.operands)
        rule = _EXPRESSIONS.get(op.name)
        if rule is not None:
            self.names[op.results[0]] = rule(self, op, operands)
            return
        statement = _STATEMENTS.get(op.name)
        if statement is not None:
            line = statement(self, op, operands)
            if line:
                self.lines.append(f"    {line}")
            return
        self.general(op, operands)

    def general(self, op: Op, operands: list[str]) -> None:
        """An operation that has no better notation."""
        call = f"{op.name}({', '.join(operands)})"
        for position, value in enumerate(op.results):
            self.names[value] = f"{call}[{position}]" if len(op.results) > 1 else call
        if not op.results:
            self.lines.append(f"    {call}")

    def goto(self, block: Block) -> str:
        return f"goto {self.blocks[block]}"

    def terminator(self, block: Block) -> None:
        term = block.term
        assert term is not None
        operands = self.texts(term.operands)
        if term.name == "return_value":
            self.lines.append(f"    return {operands[0]}")
        elif term.name == "branch":
            taken, other = block.edges
            test = {
                "true": operands[0],
                "false": f"not {operands[0]}",
                "none": f"{operands[0]} is None",
                "not_none": f"{operands[0]} is not None",
            }[term.arg]
            self.lines.append(
                f"    if {test}: {self.goto(taken.target)} else {self.goto(other.target)}"
            )
        elif term.name == "jump":
            self.lines.append(f"    {self.goto(block.edges[0].target)}")
        elif term.name == "for_iter":
            body, done = block.edges
            self.names[term.results[0]] = "item"
            self.lines.append(
                f"    for item in {operands[0]}: {self.goto(body.target)} else {self.goto(done.target)}"
            )
        else:
            self.lines.append(f"    {term.name.split('_')[0]} {', '.join(operands)}")


def _constant(w: _Writer, op: Op, operands: list[str]) -> str:
    return op.arg.co_name if isinstance(op.arg, types.CodeType) else repr(op.arg)


def _call(w: _Writer, op: Op, operands: list[str]) -> str:
    first, second, *args = operands
    count = len(op.arg or ())
    if count:
        args[-count:] = [f"{n}={a}" for n, a in zip(op.arg, args[-count:], strict=True)]
    if first == "":
        function = second
    elif second == "":
        function = first
    elif first.startswith("."):
        function = second + first
    else:
        function, args = first, [second, *args]
    return f"{function}({', '.join(args)})"


def _item(w: _Writer, op: Op, operands: list[str]) -> str:
    return f"{operands[0]}[{operands[1]}]"


_EXPRESSIONS: dict[str, Any] = {
    "const": _constant,
    "null": lambda w, op, _: "",
    "load": lambda w, op, _: op.arg,
    "load_check": lambda w, op, _: op.arg,
    "load_deref": lambda w, op, _: op.arg,
    "load_closure": lambda w, op, _: f"<cell {op.arg}>",
    "load_global": lambda w, op, _: op.arg,
    "load_attr": lambda w, op, o: f"{o[0]}.{op.arg}",
    "copy": lambda w, op, o: o[0],
    "binary_op": lambda w, op, o: f"({o[0]} {op.arg.removesuffix('=')} {o[1]})",
    "binary_subscr": _item,
    "compare_op": lambda w, op, o: f"({o[0]} {op.arg} {o[1]})",
    "is_op": lambda w, op, o: f"({o[0]} {'is not' if op.arg else 'is'} {o[1]})",
    "contains_op": lambda w, op, o: f"({o[0]} {'not in' if op.arg else 'in'} {o[1]})",
    **{name: (lambda w, op, o, sign=sign: f"{sign}{o[0]}") for name, sign in _UNARY.items()},
    "build_tuple": lambda w, op, o: f"({', '.join(o)}{',' if len(o) == 1 else ''})",
    "build_list": lambda w, op, o: f"[{', '.join(o)}]",
    "build_map": lambda w, op, o: (
        "{" + ", ".join(f"{k}: {v}" for k, v in zip(o[::2], o[1::2], strict=True)) + "}"
    ),
    "call": _call,
    "get_iter": lambda w, op, o: f"iter({o[0]})",
    "get_len": lambda w, op, o: f"len({o[0]})",
    "list_to_tuple": lambda w, op, o: f"tuple({o[0]})",
}


def _method(w: _Writer, op: Op, operands: list[str]) -> str:
    w.names[op.results[0]] = f".{op.arg}"
    w.names[op.results[1]] = operands[0]
    return ""


def _unpack(w: _Writer, op: Op, operands: list[str]) -> str:
    for position, value in enumerate(reversed(op.results)):
        w.names[value] = f"{operands[0]}[{position}]"
    return ""


def _drop(w: _Writer, op: Op, operands: list[str]) -> str:
    return operands[0] if operands[0].endswith(")") and "(" in operands[0] else ""


_STATEMENTS: dict[str, Any] = {
    "store": lambda w, op, o: f"{op.arg} = {o[0]}",
    "store_deref": lambda w, op, o: f"{op.arg} = {o[0]}",
    "store_global": lambda w, op, o: f"{op.arg} = {o[0]}",
    "store_attr": lambda w, op, o: f"{o[1]}.{op.arg} = {o[0]}",
    "store_subscr": lambda w, op, o: f"{o[1]}[{o[2]}] = {o[0]}",
    "delete": lambda w, op, o: f"del {op.arg}",
    "delete_check": lambda w, op, o: f"del {op.arg}",
    "clear": lambda w, op, o: "",
    "nop": lambda w, op, o: "",
    "resume": lambda w, op, o: "",
    "load_method": _method,
    "unpack_sequence": _unpack,
    "drop": _drop,
}


def usual_path(fn: Function) -> list[Block]:
    """Blocks that are reached without an exception, in their order."""
    found: dict[Block, None] = {}
    work = [fn.blocks[0]]
    while work:
        block = work.pop()
        if block not in found:
            found[block] = None
            work += [edge.target for edge in block.edges]
    return [block for block in fn.blocks if block in found]


def residual_source(fn: Function) -> str:
    """Residual IR as pseudo-Python: the usual path, exception handlers left out.

    Args:
        fn: residual IR.
    """
    writer = _Writer(fn, {})
    for block in usual_path(fn):
        writer.block(block)
    return f"def {fn.name}({', '.join(fn.arg_names)}):\n" + "\n".join(tidy(writer.lines)) + "\n"


def tidy(lines: list[str]) -> list[str]:
    """Leave out jumps to the next line, and labels that nothing names."""
    kept: list[str] = []
    for index, line in enumerate(lines):
        following = lines[index + 1].strip() if index + 1 < len(lines) else ""
        if line.strip().startswith("goto ") and f"{line.split()[-1]}:" == following:
            continue
        kept.append(line)
    text = "\n".join(kept)
    return [
        line
        for line in kept
        if not line.strip().endswith(":") or f"goto {line.strip()[:-1]}" in text
    ]
