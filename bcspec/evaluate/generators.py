"""Generators that are run in place: virtual objects that hold a suspended frame.

A *gencall* is a generator that has not begun; when it is advanced its frame is unfolded
(*running*); a yield packs the frame into the virtual object again, handlers and all; in the end it
is *finished*.  Where the interpreter would keep the exception that a suspended generator is
handling apart from that of its caller, or would run its handlers when it dies, the generator is not
run in place (`Restart`).
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from .domain import (
    NULL,
    AVal,
    Caught,
    Cells,
    Const,
    Dyn,
    Entry,
    Frame,
    FrameTag,
    Handling,
    Hold,
    Ref,
    Tmp,
    VObj,
)
from .emission import Restart, current_op
from .source import Source, source_of
from .unfold import Binding, Callee, make_cells, place_arguments, static_refusal

if TYPE_CHECKING:
    from .evaluator import Evaluator


def generator_refusal(ev: Evaluator, source: Source) -> str | None:
    """Why a generator function must stay a call, apart from what holds for every function."""
    if static_refusal(source) is not None or not source.yields:
        return static_refusal(source) or "it never yields"
    ops = (op.name for block in source.fn.blocks for op in block.all_ops())
    return "it delegates to another iterator" if "send" in ops else None


# -- frames ----------------------------------------------------------------------------


def start_generator(ev: Evaluator, callee: Callee, binding: Binding) -> Ref:
    """The virtual generator that a call makes: a frame that has not begun."""
    source = source_of(callee.code)
    depth = len(ev.state.frames)
    locals_ = place_arguments(ev, source, binding, depth)
    cells = make_cells(ev, source, locals_, callee.cells, depth)
    frame = Frame(source, source.fn.blocks[0], 0, locals_, {}, Cells(cells), callee.globals)
    ev.state.frames.append(frame)
    return ev.new_ref(suspend_frame(ev))


def suspend_frame(ev: Evaluator) -> VObj:
    """Take the top frame off and pack it into a virtual generator."""
    frame = ev.state.top
    if any(is_handling(entry.aval) for entry in frame.env.values()):
        raise Restart(
            "no_unfold", frame.source.code, "a generator yields while it handles an exception"
        )
    for value, entry in list(frame.env.items()):
        frame.env[value] = Entry(ev.to_slot(entry, "gen"))
    ev.state.frames.pop()
    tag = FrameTag(
        frame.source.code,
        frame.block,
        frame.index,
        tuple(frame.locals),
        tuple(frame.env),
        tuple(frame.cells),
        Hold(frame.globals),
    )
    kids = (
        *frame.locals.values(),
        *(entry.aval for entry in frame.env.values()),
        *frame.cells.values(),
    )
    return VObj("generator", tag, kids)


def is_handling(aval: AVal) -> bool:
    """Whether it is what `push_exc_info` has set aside."""
    return isinstance(aval, (Tmp, Dyn)) and aval.type is Handling


def restore_frame(ev: Evaluator, generator: VObj, sent: AVal) -> Frame:
    """The frame of a suspended generator, ready to go on: the resumed `yield` gives `sent`."""
    tag: FrameTag = generator.tag
    kids = iter(generator.kids)
    source = source_of(tag.code)
    frame = Frame(
        source=source,
        block=tag.block,
        index=tag.index,
        locals={name: next(kids) for name in tag.names},
        env={value: Entry(next(kids)) for value in tag.values},
        cells=Cells({name: next(kids) for name in tag.cells}),
        globals=tag.globals.obj,
    )
    if tag.index > 0:
        op = tag.block.ops[tag.index - 1]
        frame.env[op.results[0]] = Entry(sent)
    return frame


# -- running ---------------------------------------------------------------------------


def resume(
    ev: Evaluator,
    ref: Ref,
    cont: str,
    held: tuple[AVal, ...] = (),
    sent: AVal = Const(None),  # noqa: B008  # immutable
) -> None:
    """Run a suspended generator until it yields or ends; `cont` says what happens then."""
    generator = ev.state.heap[ref.id]
    frame = restore_frame(ev, generator, sent)
    frame.cont = cont
    frame.held = (ref, *held)
    # The generator is running: its frame holds what it held.
    ev.state.heap[ref.id] = VObj("running", generator.tag.code)
    ev.state.frames.append(frame)
    ev.following = True


def throw_into(ev: Evaluator, ref: Ref, error: AVal) -> None:
    """Have a suspended generator go on by raising a caught exception where it waits."""
    ev.state.hand.append(Entry(error))
    resume(ev, ref, "next")
    raise_again(ev)


def raise_again(ev: Evaluator) -> None:
    """Raise the exception in the hand as it is: neither its context nor its traceback change."""
    ev.realise_hand()
    ev.protect()
    operands = ev.hand_temps()
    ev.state.hand.clear()
    ev.finish("reraise", None, operands, [])
    ev.end_path()


def suspended(ev: Evaluator, aval: AVal, *, begun: bool = False) -> Ref | None:
    """The virtual generator `aval`, if it can be advanced (`begun`: only one that has begun)."""
    obj = ev.object(aval, "gencall", "generator", "finished")
    if obj is None:
        return None
    assert isinstance(aval, Ref)
    if obj.kind == "gencall" and (begun or not makes_generator(obj)):
        return None
    return None if begun and obj.kind == "generator" and obj.tag.index == 0 else aval


def makes_generator(gencall: VObj) -> bool:
    """Whether a virtual call is that of a generator function, not of a builtin."""
    function = gencall.kids[0]
    return not isinstance(function, Const) or not isinstance(
        function.obj, (type, types.MethodDescriptorType)
    )


# -- how they end ----------------------------------------------------------------------


def stop(ev: Evaluator, value: Entry) -> None:
    """The call that advanced a generator raises StopIteration, since that has returned `value`.

    Where a handler of unfolded code catches it and lets no code look at it, nothing is raised: control
    just goes there.
    """
    frame = ev.state.top
    op = current_op(frame)
    returned = ev.to_slot(value, "value")
    kids = () if isinstance(returned, Const) and returned.obj is None else (returned,)
    if op not in ev.request.demands.real_raises and ev.find_handler() is not None:
        raise_virtual(ev, ev.new_ref(VObj("exception", (Hold(StopIteration), op), kids)))
        return
    ev.state.hand += [Entry(NULL), Entry(Const(StopIteration)), *map(Entry, kids)]
    ev.realise_hand()
    operands = ev.hand_temps()
    ev.state.hand.clear()
    (error,) = ev.emit("call", (), operands, 1)
    ev.state.hand.append(Entry(Tmp(error), error))
    ev.protect()
    operands = ev.hand_temps()
    ev.state.hand.clear()
    ev.finish("raise_varargs", 1, operands, [])
    ev.end_path()


def raise_virtual(ev: Evaluator, error: Ref) -> None:
    """Go to the handler of a virtual exception; the frames on the way end."""
    state = ev.state
    found = ev.find_handler()
    if found is None:
        raise Restart("real_raises", state.heap[error.id].tag[1], "an exception leaves")
    depth, handler = found
    state.held_aside.append(error)
    while len(state.frames) - 1 > depth:
        (left,) = state.leave_frames(len(state.frames) - 2)
        for entry in reversed(left.env.values()):
            ev.discard(entry)
        ev.collect()
    frame = state.top
    kept = set(handler.args)
    for value in reversed([value for value in frame.env if value not in kept]):
        ev.discard(frame.env.pop(value))
    values = [frame.env[value] for value in handler.args]
    # Which instruction raised it is asked for only when it is raised again, and then it is real.
    values += [Entry(Const(None))] * handler.lasti
    frame.env = dict(zip(handler.target.params, [*values, Entry(error)], strict=True))
    frame.block, frame.index = handler.target, 0
    state.held_aside.pop()
    ev.collect()
    ev.arrive()


def is_caught(aval: AVal) -> bool:
    """Whether it is an exception that a handler of the residual function has caught."""
    return isinstance(aval, (Tmp, Dyn)) and aval.type is Caught
