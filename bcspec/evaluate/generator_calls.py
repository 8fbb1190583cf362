"""`next`, and the methods of generators, on generators that are run in place."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..ir import Op
from . import models
from .builtins.iterables import open_model
from .builtins.registry import Rule, give, on
from .domain import AVal, Const, Dyn, Entry, Ref, Trace, VObj, perishable
from .generators import is_caught, raise_again, resume, stop, suspended, throw_into
from .iteration import begin_iteration
from .machine import known_type
from .unfold import callee_of, can_unfold, unfold

if TYPE_CHECKING:
    from .evaluator import Evaluator

CLOSE = models.close_model()

GENERATOR_CALLS: dict[Any, Rule] = {}


def begin(ev: Evaluator, ref: Ref) -> str:
    """Make a frame of a generator that has not begun; the kind of what it is now."""
    if ev.state.heap[ref.id].kind == "gencall":
        begin_iteration(ev, ref)
    return ev.state.heap[ref.id].kind


def put_down(ev: Evaluator, kept: Entry | None) -> AVal | None:
    """Empty the hand; what `kept` is may be held from now on."""
    aval = None
    for entry in reversed(ev.grab()):
        if entry is kept:
            aval = ev.to_slot(entry, "sent")
        else:
            ev.discard(entry)
    return aval if kept is None or aval is not None else kept.aval


@on(next, table=GENERATOR_CALLS)
def next_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    ref = suspended(ev, args[0].aval) if args else None
    if ref is None or keywords or len(args) > 2:
        return False
    default = args[1] if len(args) == 2 else None
    aval = put_down(ev, default)
    advance(ev, ref, (aval,) if aval is not None else ())
    return True


@on(types.GeneratorType.send, table=GENERATOR_CALLS)
def send(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 2 or keywords:
        return False
    nothing = isinstance(args[1].aval, Const) and args[1].aval.obj is None
    ref = suspended(ev, args[0].aval, begun=not nothing)
    if ref is None:
        return False
    value = put_down(ev, args[1])
    assert value is not None
    advance(ev, ref, (), value)
    return True


def advance(ev: Evaluator, ref: Ref, default: tuple[AVal, ...], sent: AVal | None = None) -> None:
    """Go on in a generator, or find that it has finished."""
    aside = len(ev.state.held_aside)
    ev.state.held_aside += [ref, *default, *([sent] if sent is not None else [])]
    kind = begin(ev, ref)
    del ev.state.held_aside[aside:]
    if kind != "finished":
        resume(ev, ref, "next", default, Const(None) if sent is None else sent)
    elif default:
        ev.bind_result(Entry(default[0]))
        ev.collect()
    else:
        ev.collect()
        stop(ev, Entry(Const(None)))


@on(types.GeneratorType.throw, table=GENERATOR_CALLS)
def throw(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """An exception that was caught is raised as it is; a new one by the model of that."""
    ref = suspended(ev, args[0].aval, begun=True) if len(args) in (2, 4) else None
    error = thrown(ev, args[1:])
    if ref is None or error is None or keywords:
        return False
    if not is_caught(error.aval):
        return len(args) == 2 and throw_new(ev, ref, error)
    trace = args[3].aval if len(args) == 4 else None
    if isinstance(trace, Dyn):
        (loaded,) = ev.load(trace)
        (target,) = ev.load(error.aval)
        ev.emit("store_attr", "__traceback__", (loaded, target))
    aval = put_down(ev, error)
    assert aval is not None
    if ev.state.heap[ref.id].kind != "finished":
        throw_into(ev, ref, aval)
        return True
    ev.state.hand.append(Entry(aval))
    raise_again(ev)
    return True


def thrown(ev: Evaluator, args: list[Entry]) -> Entry | None:
    """The exception that the arguments of `throw` stand for, if that is one for certain.

    The old form has class, instance and traceback, as ``__exit__`` gets them.
    """
    if len(args) == 1:
        cls = known_type(args[0].aval)
        known = is_caught(args[0].aval) or (cls is not None and issubclass(cls, BaseException))
        return args[0] if known else None
    if len(args) != 3:
        return None
    kind, error, trace = args
    origin = ev.object(kind.aval, "class")
    same = (
        origin is not None
        and isinstance(error.aval, Dyn)
        and isinstance(origin.kids[0], Dyn)
        and origin.kids[0].slot == error.aval.slot
    )
    own = isinstance(trace.aval, Dyn) and trace.aval.type is Trace
    return error if same and own else None


def throw_new(ev: Evaluator, ref: Ref, error: Entry) -> bool:
    """Raise an exception that has not been raised before where the generator waits."""
    if ev.state.heap[ref.id].kind == "finished":
        return False
    callee = callee_of(ev, Const(models.raise_))
    assert callee is not None
    aval = put_down(ev, error)
    assert aval is not None
    binding = can_unfold(ev, callee, [Entry(aval)], {})
    assert binding is not None
    ev.state.held_aside.append(aval)
    resume(ev, ref, "next")
    ev.state.held_aside.pop()
    unfold(ev, callee, binding)
    return True


@on(types.GeneratorType.close, table=GENERATOR_CALLS)
def close(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    ref = suspended(ev, args[0].aval) if len(args) == 1 and not keywords else None
    if ref is None:
        return False
    obj = ev.state.heap[ref.id]
    if perishable(obj):
        return open_model(ev, op, CLOSE, args)
    if obj.kind != "finished":
        ev.state.heap[ref.id] = VObj("finished", code_of(ev, obj))
    return give(ev, op, Const(None))


def code_of(ev: Evaluator, generator: VObj) -> types.CodeType:
    if generator.kind == "generator":
        return generator.tag.code  # type: ignore[no-any-return]
    callee = callee_of(ev, generator.kids[0])
    assert callee is not None
    return callee.code
