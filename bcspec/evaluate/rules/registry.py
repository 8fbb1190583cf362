"""The table of rules and the default rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir import OPS, Op
from ...knowledge import Refinement
from ..domain import Entry, Holding, Tmp

if TYPE_CHECKING:
    from ..evaluator import Evaluator

Rule = Callable[["Evaluator", Op], None]


def residual(ev: Evaluator, op: Op) -> None:
    """Keep the operation: bring its operands onto the stack and emit it."""
    ev.take(op)
    residual_hand(ev, op)


def residual_hand(
    ev: Evaluator,
    op: Op,
    types: tuple[type | Refinement | None, ...] = (),
    arg: Any = None,
    keeps: Holding = frozenset(),
) -> None:
    """Emit `op` on the hand; results are unknown, `types` is what is known of them.

    `arg` replaces that of the operation; `keeps` is what it leaves as it is.
    """
    spec = OPS[op.name]
    arg = op.arg if arg is None else arg
    kept = list(op.operands[: op.keeps])
    for value in kept:
        ev.make_physical(ev.state.top, value)
    ev.realise_hand()
    if spec.raises:
        results = ev.emit_raising(op.name, arg, kept, len(op.results), keeps)
    else:
        operands = ev.kept_temps(kept) + ev.hand_temps()
        ev.state.hand.clear()
        results = ev.emit(op.name, arg, operands, len(op.results))
    known = types or (None,) * len(results)
    ev.give(op, *(Entry(Tmp(v, t), v) for v, t in zip(results, known, strict=True)))
    ev.collect()


def load_part(ev: Evaluator, op: Op, known: type | Refinement | None) -> None:
    """Emit a load of an attribute or item of the hand; if it is refined, that runs no other code."""
    keeps = ev.state.holding if isinstance(known, Refinement) else frozenset()
    residual_hand(ev, op, (known,), keeps=keeps)


RULES: dict[str, Rule] = dict.fromkeys(OPS, residual)


def rule(names: str) -> Callable[[Rule], Rule]:
    """Register a rule for each of the operations `names`."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            assert RULES[name] is residual, name
            RULES[name] = function
        return function

    return register
