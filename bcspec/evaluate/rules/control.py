"""Jumps, branches, loops and returns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import Op
from ..domain import AVal, Cells, Const, Dyn, Entry, Passed, Ref, Tmp, TypeFact, VObj
from ..generators import resume, stop, suspend_frame
from ..iteration import begin_iteration
from ..machine import known_type, never_none
from ..truth import truth_of
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
    ev.tested = tested(ev, op.arg, entry.aval)
    ev.realise_hand()
    ev.fork("branch", op.arg)


def tested(ev: Evaluator, kind: str, aval: AVal) -> TypeFact | Passed | None:
    """What it tells that a branch of this kind is taken."""
    if isinstance(aval, Tmp) and aval.value is ev.state.verdict:
        return Passed(kind == "true") if kind in ("true", "false") else None
    if kind in ("none", "not_none"):
        return TypeFact(aval.slot, type(None), kind == "none") if isinstance(aval, Dyn) else None
    fact = ev.type_facts.get(aval.value) if isinstance(aval, Tmp) else None
    if fact is None or fact.cls is None:
        return None
    return replace(fact, holds=fact.holds == (kind == "true"))


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
    if never_none(aval):
        return False
    return True if known_type(aval) is type(None) else None


@rule("for_iter")
def for_iter(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    entry = frame.env[op.operands[0]]
    if ev.object(entry.aval, "gencall") is not None:
        # A loop that takes a generator as it comes from the call, without asking for its iterator.
        assert isinstance(entry.aval, Ref)
        begin_iteration(ev, entry.aval)
    iterator = ev.object(entry.aval, "iterator", "zipped", "generator", "finished")
    if iterator is None or not steps_known(iterator):
        ev.make_physical(ev.state.top, op.operands[0])
        ev.fork("for_iter", None, 1)
    elif iterator.kind == "generator":
        assert isinstance(entry.aval, Ref)
        resume(ev, entry.aval, "iterate")
    elif iterator.kind == "finished":
        exhausted(ev, op)
    else:
        step(ev, op, entry.aval, iterator)


def steps_known(iterator: VObj) -> bool:
    """Whether what an iterator steps through is still virtual (it may have escaped since)."""
    return iterator.kind == "generator" or all(isinstance(k, (Const, Ref)) for k in iterator.kids)


def step(ev: Evaluator, op: Op, ref: AVal, iterator: VObj) -> None:
    """One round of a loop over a known sequence."""
    assert isinstance(ref, Ref)
    items = [item_at(ev, kid, iterator.tag) for kid in iterator.kids]
    if iterator.tag == 0:
        count = 0
        while None not in [item_at(ev, kid, count) for kid in iterator.kids]:
            count += 1
        ev.note("unrolled", f"a loop over {count} items")
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


@rule("yield_value")
def yield_value(ev: Evaluator, op: Op) -> None:
    frame = ev.state.top
    if frame.cont == "value":
        residual(ev, op)
        return
    ev.take(op)
    (entry,) = ev.grab()
    many = frame.source.yields > 1
    generator = suspend_frame(ev)
    ref = frame.held[0]
    assert isinstance(ref, Ref)
    ev.state.heap[ref.id] = generator
    if frame.cont == "iterate":
        consumer = ev.state.top
        assert consumer.block.term is not None
        ev.give(consumer.block.term, entry)
        ev.collect()
        ev.jump(consumer.block.edges[0])
        return
    ev.bind_result(entry)
    ev.collect()
    if many:
        ev.join()


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
    ev.state.finish_generator(frame)
    ev.following = True
    CONTINUATIONS[frame.cont](ev, entry, frame.held)
    if many and ev.following and frame.cont != "iterate":
        ev.join()


def leave_function(ev: Evaluator) -> None:
    """Nothing but the result is held from here on; the interpreter clears the slots."""
    frame = ev.state.top
    ev.check_survivors(None)
    if not ev.observed(frame):
        frame.locals.clear()
    frame.cells = Cells({})
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


def _next(ev: Evaluator, entry: Entry, held: tuple[AVal, ...]) -> None:
    """A generator that a call has advanced has ended; `held` may have what that gives instead."""
    if len(held) == 1:
        stop(ev, entry)
        return
    ev.discard(entry)
    ev.bind_result(Entry(held[1]))
    ev.collect()


CONTINUATIONS = {
    "value": _value,
    "held": _held,
    "enter": _enter,
    "iterate": _iterate,
    "next": _next,
}


@rule("send")
def send(ev: Evaluator, op: Op) -> None:
    ev.make_physical(ev.state.top, op.operands[0])
    ev.take(op)
    ev.realise_hand()
    ev.fork("send", op.arg, 1)
