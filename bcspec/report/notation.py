"""The operations of the IR in the notation of Python, as near as it gets."""

from __future__ import annotations

import re
import types
from collections.abc import Callable

from ..ir import Op

#: Text of an operation, given it and the texts of its operands.
Notation = Callable[[Op, list[str]], str]

_UNARY = {"unary_negative": "-", "unary_positive": "+", "unary_invert": "~", "unary_not": "not "}

#: How the two sides of a test are told.
_OPPOSITES = [(["is", "not"], ["is"]), (["not", "in"], ["in"]), (["!="], ["=="])]


def variable(name: str) -> str:
    """A slot or free variable as an identifier."""
    return re.sub(r"\W", "_", name)


def is_simple(text: str) -> bool:
    """Whether a text is a name or a literal: it may stand in several places."""
    return re.fullmatch(r"[\w.]*|'[^']*'|-?[\d.]+", text) is not None


def mentions(text: str, name: str) -> bool:
    """Whether a variable occurs in a text."""
    return name in text and re.search(rf"\b{name}\b", text) is not None


def negated(test: str) -> str:
    """The opposite of a test."""
    if test.startswith("not "):
        return test[4:]
    words = test.split(" ")
    for one, two in _OPPOSITES:
        for this, other in ((one, two), (two, one)):
            size = len(this)
            if words[1 : 1 + size] == this and len(words) == 2 + size:
                return " ".join([words[0], *other, words[-1]])
    return f"not {test}" if is_simple(test) or test.endswith(")") else f"not ({test})"


def bare(text: str) -> str:
    """An expression without the parentheses around it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 and position < len(text) - 1:
            return text
    return text if text == "()" or text.endswith(",)") or re.search(r",\s", text) else text[1:-1]


def _constant(op: Op, operands: list[str]) -> str:
    return op.arg.co_name if isinstance(op.arg, types.CodeType) else repr(op.arg)


def _call(op: Op, operands: list[str]) -> str:
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
    return f"{function}({', '.join(map(bare, args))})"


def _call_ex(op: Op, operands: list[str]) -> str:
    parts = [text for text in operands if text]
    stars = [f"*{parts[1]}", *(f"**{text}" for text in parts[2:])]
    return f"{parts[0]}({', '.join(stars)})"


def _items(operands: list[str]) -> str:
    return ", ".join(map(bare, operands))


EXPRESSIONS: dict[str, Notation] = {
    "const": _constant,
    "null": lambda op, _: "",
    "load": lambda op, _: variable(op.arg),
    "load_check": lambda op, _: variable(op.arg),
    "load_deref": lambda op, _: variable(op.arg),
    "load_closure": lambda op, _: f"<cell {variable(op.arg)}>",
    "load_global": lambda op, _: op.arg,
    "load_attr": lambda op, o: f"{o[0]}.{op.arg}",
    "to_bool": lambda op, o: o[0],
    "binary_op": lambda op, o: f"({o[0]} {op.arg.removesuffix('=')} {o[1]})",
    "binary_subscr": lambda op, o: f"{o[0]}[{bare(o[1])}]",
    "compare_op": lambda op, o: f"({o[0]} {op.arg} {o[1]})",
    "is_op": lambda op, o: f"({o[0]} {'is not' if op.arg else 'is'} {o[1]})",
    "contains_op": lambda op, o: f"({o[0]} {'not in' if op.arg else 'in'} {o[1]})",
    **{name: (lambda op, o, sign=sign: f"{sign}{o[0]}") for name, sign in _UNARY.items()},  # type: ignore[misc]
    "build_tuple": lambda op, o: f"({_items(o)}{',' if len(o) == 1 else ''})",
    "build_list": lambda op, o: f"[{_items(o)}]",
    "build_set": lambda op, o: f"{{{_items(o)}}}" if o else "set()",
    "build_map": lambda op, o: (
        "{" + ", ".join(f"{k}: {v}" for k, v in zip(o[::2], o[1::2], strict=True)) + "}"
    ),
    "build_string": lambda op, o: " + ".join(o),
    "format_value": lambda op, o: f"format({o[0]})",
    "call": _call,
    "call_ex": _call_ex,
    "get_iter": lambda op, o: f"iter({bare(o[0])})",
    "get_len": lambda op, o: f"len({bare(o[0])})",
    "list_to_tuple": lambda op, o: f"tuple({o[0]})",
}

#: The operands that an operation only looks at come first.
STATEMENTS: dict[str, Notation] = {
    "store": lambda op, o: f"{variable(op.arg)} = {bare(o[0])}",
    "store_deref": lambda op, o: f"{variable(op.arg)} = {bare(o[0])}",
    "store_global": lambda op, o: f"{op.arg} = {bare(o[0])}",
    "store_attr": lambda op, o: f"{o[1]}.{op.arg} = {bare(o[0])}",
    "store_subscr": lambda op, o: f"{o[1]}[{bare(o[2])}] = {bare(o[0])}",
    "delete_subscr": lambda op, o: f"del {o[0]}[{bare(o[1])}]",
    "delete_attr": lambda op, o: f"del {o[0]}.{op.arg}",
    "list_append": lambda op, o: f"{o[0]}.append({bare(o[1])})",
    "list_extend": lambda op, o: f"{o[0]}.extend({bare(o[1])})",
    "set_add": lambda op, o: f"{o[0]}.add({bare(o[1])})",
    "set_update": lambda op, o: f"{o[0]}.update({bare(o[1])})",
    "dict_update": lambda op, o: f"{o[0]}.update({bare(o[1])})",
    "dict_merge": lambda op, o: f"{o[2]}.update({bare(o[3])})",
    "map_add": lambda op, o: f"{o[0]}[{bare(o[1])}] = {bare(o[2])}",
}

#: Operations that the reader need not see.
UNSEEN = frozenset("clear nop resume".split())
