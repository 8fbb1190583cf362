"""The table of rules and the default rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir import OPS, Op
from ..domain import Entry, Tmp
from ..machine import known_type

if TYPE_CHECKING:
    from ..evaluator import Evaluator

Rule = Callable[["Evaluator", Op], None]


def residual(ev: Evaluator, op: Op) -> None:
    """Keep the operation: bring its operands onto the stack and emit it."""
    ev.take(op)
    residual_hand(ev, op)


def residual_hand(ev: Evaluator, op: Op, types: tuple[type | None, ...] = ()) -> None:
    """Emit `op` on the hand; results are unknown, of exact `types` where given."""
    spec = OPS[op.name]
    kept = list(op.operands[: op.keeps])
    for value in kept:
        make_physical(ev, value)
    ev.realise_hand()
    if spec.raises:
        results = ev.emit_raising(op.name, op.arg, kept, len(op.results))
    else:
        operands = ev.kept_temps(kept) + ev.hand_temps()
        ev.state.hand.clear()
        results = ev.emit(op.name, op.arg, operands, len(op.results))
    known = types or (None,) * len(results)
    ev.give(op, *(Entry(Tmp(v, t), v) for v, t in zip(results, known, strict=True)))
    ev.collect()


def make_physical(ev: Evaluator, value: object) -> None:
    """Turn an entry of the top frame's environment into a temporary, where it stands."""
    env = ev.state.top.env
    entry = env[value]  # type: ignore[index]
    if isinstance(entry.aval, Tmp):
        return
    hand = ev.state.hand
    env[value] = Entry(entry.aval)  # type: ignore[index]
    hand.append(Entry(entry.aval, entry.temp))
    ev.realise(len(hand) - 1)
    made = hand.pop()
    env[value] = Entry(Tmp(ev.value_of(made), known_type(made.aval)), made.temp)  # type: ignore[index]


RULES: dict[str, Rule] = dict.fromkeys(OPS, residual)


def rule(names: str) -> Callable[[Rule], Rule]:
    """Register a rule for each of the operations `names`."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            assert RULES[name] is residual, name
            RULES[name] = function
        return function

    return register
