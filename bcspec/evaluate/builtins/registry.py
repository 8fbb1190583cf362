"""The tables of rules for builtin functions and methods, and what every rule needs.

A rule is called as ``rule(evaluator, op, args, keywords)`` with the operands in the hand.  It either
folds the call and returns True, or changes nothing and returns False.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir import Op
from ..domain import AVal, Const, Entry, Ref
from ..machine import known_type

if TYPE_CHECKING:
    from ..evaluator import Evaluator


Rule = Callable[["Evaluator", Op, list[Entry], dict[str, Entry]], bool]

BUILTINS: dict[Any, Rule] = {}
METHODS: dict[Any, Rule] = {}


def on(*functions: Any, table: dict[Any, Rule] = BUILTINS) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for function in functions:
            table[function] = rule
        return rule

    return register


def give(ev: Evaluator, op: Op, value: AVal) -> bool:
    """Replace the call by a value."""
    ev.discard_hand_keeping(value)
    if isinstance(value, Const) and not value.deep:
        ev.give(op, ev.const_entry(value.obj))
    else:
        ev.give(op, Entry(value))
    ev.collect()
    return True


def give_entry(ev: Evaluator, op: Op, entry: Entry) -> bool:
    """Replace the call by one of its arguments."""
    for other in reversed(ev.grab()):
        if other is not entry:
            ev.discard(other)
    ev.give(op, entry)
    ev.collect()
    return True


def called(ev: Evaluator) -> Any:
    """The builtin that the hand calls, perhaps through a `functools.partial`."""
    for entry in ev.state.hand[:2]:
        if isinstance(entry.aval, Const) and callable(entry.aval.obj):
            found = entry.aval.obj
            return found.func if type(found) is functools.partial else found
    return None


def virtual_class(ev: Evaluator, aval: AVal) -> type | None:
    """The exact class of a value, virtual objects included."""
    if isinstance(aval, Ref):
        obj = ev.state.heap[aval.id]
        if obj.kind == "instance":
            return obj.tag[0].obj  # type: ignore[no-any-return]
        if obj.kind == "gencall":
            function = obj.kids[0]
            if isinstance(function, Const) and isinstance(function.obj, type):
                return function.obj
            return types.GeneratorType
        return VIRTUAL_CLASSES.get(obj.kind)
    return known_type(aval)


VIRTUAL_CLASSES: dict[str, type] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "slice": slice,
    "function": types.FunctionType,
    "method": types.MethodType,
    "cell": types.CellType,
    "generator": types.GeneratorType,
    "running": types.GeneratorType,
    "finished": types.GeneratorType,
}
