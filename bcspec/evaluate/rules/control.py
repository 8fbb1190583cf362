"""Jumps, branches, loops and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Op
from ..domain import AVal, Const, Dyn, Entry, Ref, VObj
from ..machine import known_type
from ..truth import truth_of
from ..unfold import restore_frame, suspend_frame
from .registry import residual, rule

if TYPE_CHECKING:
    from ..evaluator import Evaluator


@rule("jump")
def jump(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    (edge,) = frame.block.edges
    if frame.source.order[edge.target] <= frame.source.order[frame.block] and op.arg is None:
        ev.protect()  # a signal may be noticed here
    ev.jump(edge, op.arg)


@rule("branch")
def branch(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    entry = ev.state.hand[0]
    known = test(ev, op.arg, entry.aval)
    if known is not None:
        ev.discard_hand()
        ev.note("removed", f"the branch is always {'taken' if known else 'passed'}")
        ev.jump(ev.state.top.block.edges[0 if known else 1])
        return
    ev.tested_slot = entry.aval.slot if isinstance(entry.aval, Dyn) else None
    ev.realise_hand()
    ev.fork("branch", op.arg)


def test(ev: Evaluator, kind: str, aval: AVal) -> bool | None:
    """Whether a branch of this kind is taken, if that is known."""
    if kind in ("none", "not_none"):
        is_none = none_test(aval)
        return None if is_none is None else is_none == (kind == "none")
    truth = truth_of(ev, aval)
    return None if truth is None else truth == (kind == "true")


def none_test(aval: AVal) -> bool | None:
    if isinstance(aval, Const):
        return aval.obj is None
    if isinstance(aval, Ref):
        return False
    exact = known_type(aval)
    return None if exact is None else exact is type(None)


@rule("for_iter")
def for_iter(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    entry = frame.env[op.operands[0]]
    iterator = ev.object(entry.aval, "iterator", "zipped", "generator")
    if iterator is None or not steps_known(iterator):
        ev.make_physical(ev.state.top, op.operands[0])
        ev.fork("for_iter", None, 1)
    elif iterator.kind != "generator":
        step(ev, op, entry.aval, iterator)
    else:
        resume(ev, entry.aval, iterator, "iterate")


def steps_known(iterator: VObj) -> bool:
    """Whether what an iterator steps through is still virtual (it may have escaped since)."""
    return iterator.kind == "generator" or all(isinstance(k, (Const, Ref)) for k in iterator.kids)


def step(ev: Evaluator, op: Op, ref: AVal, iterator: VObj) -> None:
    """One round of a loop over a known sequence."""
    assert isinstance(ref, Ref)
    items = [item_at(ev, kid, iterator.tag) for kid in iterator.kids]
    if None in items:
        exhausted(ev, op)
        return
    zipped = iterator.kind == "zipped"
    item = ev.new_ref(VObj("tuple", None, tuple(items))) if zipped else items[0]  # type: ignore[arg-type]
    assert item is not None
    ev.state.heap[ref.id] = VObj(iterator.kind, iterator.tag + 1, iterator.kids)
    ev.give(op, Entry(item))
    ev.jump(ev.state.top.block.edges[0])


def exhausted(ev: Evaluator, op: Op) -> None:
    """Leave a loop: the iterator is let go of."""
    ev.state.top.env.pop(op.operands[0])
    ev.collect()
    ev.jump(ev.state.top.block.edges[1])


def item_at(ev: Evaluator, source: AVal, position: int) -> AVal | None:
    """Item `position` of a known sequence, or None past its end."""
    if isinstance(source, Const):
        items = source.obj
        return Const(items[position], source.deep) if position < len(items) else None
    obj = ev.object(source)
    assert obj is not None
    return obj.kids[position] if position < len(obj.kids) else None


def resume(ev: Evaluator, ref: AVal, generator: VObj, cont: str) -> None:
    """Run a suspended generator until it yields or ends; `cont` says what happens then."""
    assert isinstance(ref, Ref)
    frame = restore_frame(ev, generator)
    frame.cont = cont
    # The generator is running: its frame holds what it held.
    ev.state.heap[ref.id] = VObj("running", generator.tag.code)
    ev.state.frames.append(frame)
    ev.following = True


@rule("yield_value")
def yield_value(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    if frame.cont == "value":
        residual(ev, op)
        return
    ev.take(op)
    (entry,) = ev.grab()
    suspended = suspend_frame(ev)
    consumer = ev.state.top
    term = consumer.block.term
    assert term is not None
    ref = consumer.env[term.operands[0]].aval
    assert isinstance(ref, Ref)
    ev.state.heap[ref.id] = suspended
    ev.give(term, entry)
    ev.jump(consumer.block.edges[0])


@rule("resume")
def resume_op(ev: Evaluator, op: Op) -> None:
    if len(ev.state.frames) == 1:
        residual(ev, op)


@rule("return_value")
def return_value(ev: Evaluator, op: Op) -> None:
    ev.take(op)
    if len(ev.state.frames) == 1:
        leave_function(ev)
        ev.realise_hand()
        operands = ev.hand_temps()
        ev.state.hand.clear()
        ev.finish("return_value", None, operands, [])
        ev.end_path()
        return
    (entry,) = ev.grab()
    if isinstance(entry.aval, Ref):
        ev.settle(entry.aval)
    many = ev.state.top.source.returns > 1
    frame, entry = ev.pop_frame(entry)
    ev.following = True
    CONTINUATIONS[frame.cont](ev, entry, frame.held)
    if many and ev.following and frame.cont != "iterate":
        ev.join()


def leave_function(ev: Evaluator) -> None:
    """Nothing but the result is held from here on; the interpreter clears the slots."""
    frame = ev.state.top
    if not ev.observed(frame):
        frame.locals.clear()
    frame.cells.clear()
    ev.state.bound.clear()


def _value(ev: Evaluator, entry: Entry, held: tuple[AVal, ...]) -> None:
    ev.bind_result(entry)


def _held(ev: Evaluator, entry: Entry, held: tuple[AVal, ...]) -> None:
    """The call gives what was held aside, whatever the function returned (`__init__`)."""
    ev.discard(entry)
    ev.bind_result(Entry(held[0]))
    ev.collect()


def _enter(ev: Evaluator, entry: Entry, held: tuple[AVal, ...]) -> None:
    """`__enter__` has returned: the exit method and the result."""
    op = ev.state.top.block.ops[ev.state.top.index - 1]
    ev.give(op, Entry(held[0]), entry)


def _iterate(ev: Evaluator, entry: Entry, held: tuple[AVal, ...]) -> None:
    """A generator that a loop consumes has ended."""
    ev.discard(entry)
    term = ev.state.top.block.term
    assert term is not None
    exhausted(ev, term)


CONTINUATIONS = {"value": _value, "held": _held, "enter": _enter, "iterate": _iterate}


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
    ev.realise_hand()
    ev.protect()
    operands = ev.kept_temps(kept) + ev.hand_temps()
    ev.state.hand.clear()
    ev.finish("reraise", op.arg, operands, [])
    ev.end_path()


@rule("send")
def send(ev: Evaluator, op: Op) -> None:
    ev.make_physical(ev.state.top, op.operands[0])
    ev.take(op)
    ev.realise_hand()
    ev.fork("send", op.arg, 1)
