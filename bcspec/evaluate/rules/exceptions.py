"""Raising, catching and re-raising.

An exception that unfolded code raises and catches itself, with no code in between that could look at
it, is *virtual*: control goes to its handler, and which clause matches is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Op
from ..domain import AVal, Caught, Const, Entry, Handling, Ref, VObj
from ..generators import raise_virtual
from ..unfold import sequence_items
from .registry import residual, residual_hand, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


def virtual_exception(ev: Evaluator, aval: AVal) -> VObj | None:
    return ev.object(aval, "exception")


@rule("push_exc_info")
def push_exc_info(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    error = virtual_exception(ev, ev.state.hand[0].aval)
    if error is None:
        residual_hand(ev, op, (Handling, Caught))
        return
    (entry,) = ev.grab()
    ev.give(op, Entry(ev.new_ref(VObj("handled", error.tag[1]))), entry)


@rule("pop_except")
def pop_except(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    if ev.object(ev.state.hand[0].aval, "handled") is None:
        residual_hand(ev, op)
    else:
        ev.discard_hand()


@rule("check_exc_match")
def check_exc_match(ev: Evaluator, op: Op) -> None:
    caught, wanted = (ev.state.top.env[value].aval for value in op.operands)
    matches = matching(ev, caught, wanted)
    if matches is None:
        residual(ev, op)
        return
    ev.take(op)
    ev.discard_hand()
    ev.give(op, ev.const_entry(matches))


def matching(ev: Evaluator, caught: AVal, wanted: AVal) -> bool | None:
    """Whether a clause for `wanted` catches the exception `caught`, if that is known."""
    if isinstance(wanted, Const) and wanted.obj is BaseException:
        return True
    error = virtual_exception(ev, caught)
    items = sequence_items(ev, wanted) or [wanted]
    classes = [item.obj for item in items if isinstance(item, Const)]
    if error is None or len(classes) != len(items):
        return None
    if not all(isinstance(cls, type) and issubclass(cls, BaseException) for cls in classes):
        return None  # that is an error of its own
    return any(cls in error.tag[0].obj.__mro__ for cls in classes)


@rule("raise_varargs")
def raise_varargs(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    ev.realise_hand()
    ev.protect()
    operands = ev.hand_temps()
    ev.state.hand.clear()
    ev.finish("raise_varargs", op.arg, operands, [])
    ev.end_path()


@rule("reraise")
def reraise(ev: Evaluator, op: Op) -> None:
    kept = list(op.operands[: op.keeps])
    ev.take(op)
    error = ev.state.hand[0].aval
    if virtual_exception(ev, error) is not None:
        ev.grab()
        assert isinstance(error, Ref)
        raise_virtual(ev, error)
        return
    ev.realise_hand()
    ev.protect()
    operands = ev.kept_temps(kept) + ev.hand_temps()
    ev.state.hand.clear()
    ev.finish("reraise", op.arg, operands, [])
    ev.end_path()
