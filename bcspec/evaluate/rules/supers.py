"""``super().name`` where the interpreter has one instruction for call and attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Op, Value
from ..attributes import find_attribute
from ..builtins.classes import super_object
from ..domain import Const, Entry
from .registry import RULES, residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def keep(ev: Evaluator, op: Op, known: bool) -> None:
    """Leave it in place: with class and instance as arguments, or (`super` unknown) as it was.

    Without arguments `super` looks at the frame, which has to be that of the source.
    """
    name, explicit = op.arg
    if not explicit and not known and (len(ev.state.frames) > 1 or ev.request.assume):
        raise ev.generic_from_here("it calls `super`, which may be anything, without arguments")
    explicit = explicit or (known and ev.request.assume)
    ev.take(op)
    residual_hand(ev, op, arg=(name, explicit))


@rule("load_super_attr load_super_method")
def load_super(ev: Evaluator, op: Op) -> None:
    """As ``super(cls, obj)`` and an attribute of what it gives, where both are known."""
    function, start, instance = (ev.state.top.env[value].aval for value in op.operands)
    name = op.arg[0]
    proxy = None
    if isinstance(function, Const) and function.obj is super and ev.request.assume:
        proxy = super_object(ev, start, instance)
    if proxy is None or find_attribute(ev, proxy, name) is None:
        keep(ev, op, isinstance(function, Const) and function.obj is super)
        return
    ev.take(op)
    ev.discard_hand_keeping(proxy)
    held = Value()
    ev.state.top.env[held] = Entry(proxy)
    plain = "load_attr" if op.name == "load_super_attr" else "load_method"
    RULES[plain](ev, Op(plain, name, (held,), op.results, op.pos, op.code))
