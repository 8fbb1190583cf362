"""The entry of a compiled function: what `torch.compile` returns while bcspec is installed.

A function of one line stands in front of Dynamo's wrapper.  At first it calls the wrapper; once a graph
has settled it calls the direct way into it (`bcspec.torch.direct`), which falls back to the next
cache entry's and in the end to the wrapper.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from .. import install
from ..api import watch
from ..errors import BcspecError, SpecializationError
from ..evaluate import Request, evaluate
from . import internals
from .chain import graph_knowledge, is_inductor_graph, reachable
from .direct import Shape, make_direct
from .frames import TransformedFrame, calls_of, listen, record_of
from .settle import generic_of
from .stats import counts

log = logging.getLogger("bcspec.torch")

#: Calls through the generic wrapper that are looked at after a compile; then it is left alone.
OBSERVED_CALLS = 20

#: Runs of a transformed frame before the direct way is built: the graph's own wrappers settle first.
SETTLED_AFTER = 2

#: Direct ways built for one compiled function in all.
MOST_BUILT = 16

_PLAIN = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator

#: Compiled functions by the code that Dynamo compiles for them.
_entries: weakref.WeakKeyDictionary[CodeType, weakref.WeakSet[Entry]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Way:
    """A direct way: the cache entry it belongs to, its function, and what says where it falls back to."""

    frame: TransformedFrame
    function: Callable[..., Any]
    link: Callable[[Callable[..., Any]], None]


class Entry:
    """What is known of one compiled function.

    Attributes:
        generic: Dynamo's wrapper.
        target: the user's function or bound method.
        call: what a call of the compiled function runs now.
    """

    def __init__(self, context: Any, generic: FunctionType) -> None:
        self.context = context
        self.generic = generic
        self.target = generic._torchdynamo_orig_callable  # type: ignore[attr-defined]
        self.ways: list[Way] = []
        self.built = 0
        self.declined: set[TransformedFrame] = set()
        self.remaining = 0
        self.busy = threading.Lock()
        self.call: Callable[..., Any] = generic

    @property
    def code(self) -> CodeType:
        """The code whose frame Dynamo compiles."""
        function = self.target.__func__ if isinstance(self.target, MethodType) else self.target
        return function.__code__

    def observe(self) -> None:
        """Look at the next generic calls: the graph may have settled after one of them."""
        self.remaining = OBSERVED_CALLS
        self.relink()

    def relink(self) -> None:
        """Call the direct ways in Dynamo's order, and after them the wrapper."""
        last: Callable[..., Any] = self.observed if self.remaining > 0 else self.generic
        for way in reversed(self.ways):
            way.link(last)
            last = way.function
        self.call = last

    def observed(self, *args: Any, **kwargs: Any) -> Any:
        """A call through the generic wrapper."""
        result = self.generic(*args, **kwargs)
        self.remaining -= 1
        if self.busy.acquire(blocking=False):
            try:
                self.look(args, kwargs)
            except Exception:
                # The user's program runs without us; what went wrong is no business of its own.
                log.exception("%s stays generic: unexpected error", self.generic.__qualname__)
                self.remaining = 0
            finally:
                if self.remaining <= 0:
                    self.relink()
                self.busy.release()
        return result

    def look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Build the direct way to the cache entry that has just been used, if it has settled."""
        found = self.last_used()
        if found is None:
            return
        frame, check = found
        frame.hits += 1
        if frame.hits < SETTLED_AFTER or frame in self.declined:
            return
        if any(way.frame is frame for way in self.ways):
            return
        try:
            with counts.timed():
                way = self.build(frame, check, args, kwargs)
        except BcspecError as error:
            self.declined.add(frame)
            counts.declined[str(error)] += 1
            log.info("%s stays generic: %s", self.generic.__qualname__, error)
            return
        if frame.alive:
            counts.specialised["entry"] += 1
            log.info(
                "%s specialised: one frame from the call to the kernel", self.generic.__qualname__
            )
            self.ways.insert(0, way)
            frame.ended.append(_forget(self))
            self.relink()

    def last_used(self) -> tuple[TransformedFrame, Callable[..., bool]] | None:
        """The record and the guards of Dynamo's most recent cache entry for this backend."""
        backend = internals.innermost_backend()(self.context.callback)
        for cached in internals.cache_entries()(self.code, -1):
            if cached.backend != backend:
                continue
            frame = record_of(cached.code)
            return (frame, cached.guard_manager.root.check) if frame is not None else None
        return None

    def build(
        self, frame: TransformedFrame, check: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Way:
        """Specialise the direct way for one cache entry and one way to pass arguments.

        Raises:
            SpecializationError: the frame, or the call, is not of the usual kind.
        """
        if self.built >= MOST_BUILT:
            raise SpecializationError(f"it was specialised {MOST_BUILT} times")
        if not internals.stance_is_default()():
            raise SpecializationError("the stance is not the default one")
        shape = Shape.of(self.target, args, kwargs)
        if shape is None:
            raise SpecializationError("it is called with defaults, or is no plain function")
        calls = calls_of(frame.copy, shape.function.__globals__)
        self.built += 1
        return specialised(frame, check, shape, calls)


def _forget(entry: Entry) -> Callable[[TransformedFrame], None]:
    """Takes the direct way of a frame out of an entry that may be gone itself."""
    reference = weakref.ref(entry)

    def forget(frame: TransformedFrame) -> None:
        found = reference()
        if found is not None:
            counts.invalidated += 1
            found.ways = [way for way in found.ways if way.frame is not frame]
            found.observe()

    return forget


def specialised(frame: TransformedFrame, check: Any, shape: Shape, calls: list[Any]) -> Way:
    """The direct way for one cache entry, with frame and graph unfolded.

    Args:
        frame: what Dynamo made of the user's function.
        check: the root of the entry's guards.
        shape: how the function is called.
        calls: what the frame calls.

    Raises:
        BcspecError: it cannot be specialised.
    """
    function = shape.function
    body = FunctionType(
        frame.copy, function.__globals__, function.__name__, None, function.__closure__
    )
    equivalents = {called: without_dynamo(called) for called in calls}
    graphs = [equivalents[called] for called in calls if called not in internals.recorders()]
    parts = [part for graph in graphs for part in reachable(graph)]
    knowledge = graph_knowledge(parts)
    knowledge.equivalents.update(equivalents)
    module = function.__globals__.get("__name__", "")
    for name in frame.copy.co_names:
        if name.startswith(DYNAMO_NAMES):
            knowledge.stable_globals[module, name] = "Dynamo makes this name once"
    direct, link = make_direct(shape, body, check, not any(map(is_inductor_graph, parts)))
    assert isinstance(direct, FunctionType)
    request = Request(direct, lengths={"args": shape.count}, knowledge=knowledge)
    residual = install.build(request, evaluate(request))
    watch(residual)
    internals.skip_code()(residual.__code__)
    return Way(frame, residual, link)


def without_dynamo(called: Any) -> Callable[..., Any]:
    """What runs when a transformed frame calls something: the graph, or what records it, without the
    `disable` around it, which changes nothing where Dynamo's callback is not set.

    Raises:
        SpecializationError: it is neither.
    """
    if called in internals.recorders():
        return called.__wrapped__  # type: ignore[no-any-return]
    inner = called
    while (wrapper := internals.DisableWrapper.of(inner)) is not None:
        inner = wrapper.function
    if inner is called:
        raise SpecializationError(f"its frame calls {called!r}")
    return generic_of(inner)  # type: ignore[no-any-return]


#: How the names begin that Dynamo adds to the globals of a frame.
DYNAMO_NAMES = ("__compiled_fn_", "__import_")


def enter(context: Any, generic: Any) -> Any:
    """The function that users get from `torch.compile`, in front of Dynamo's wrapper.

    Args:
        context: Dynamo's context, which made the wrapper.
        generic: the wrapper; a module or class that holds wrappers of its own is left as it is.

    Returns:
        A function with the wrapper's face; `generic` itself where nothing can be gained.
    """
    if not isinstance(generic, FunctionType) or not understood(context, generic):
        return generic
    entry = Entry(context, generic)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return entry.call(*args, **kwargs)

    assert isinstance(compiled, FunctionType)
    internals.skip_code()(compiled.__code__)
    internals.skip_code()(Entry.observed.__code__)
    copy_wrapper(generic, compiled)
    _entries.setdefault(entry.code, weakref.WeakSet()).add(entry)
    listen(_compiled_anew)
    entry.observe()
    return compiled


def _compiled_anew(frame: TransformedFrame) -> None:
    """Dynamo has transformed a frame: whoever runs its code has something to look at."""
    code = frame.original()
    for entry in list(_entries.get(code, ())) if code is not None else ():
        entry.observe()


def understood(context: Any, generic: FunctionType) -> bool:
    """Whether the wrapper does what the direct way knows: nothing is set up around each call that
    matters when nothing is compiled."""
    target = getattr(generic, "_torchdynamo_orig_callable", None)
    function = target.__func__ if isinstance(target, MethodType) else target
    return (
        isinstance(function, FunctionType)
        and not function.__code__.co_flags & _PLAIN
        and callable(context.callback)
        and not context.export
        and context.error_on_graph_break in (None, False)
        and context._isolate_recompiles_id == -1
        and context._package is None
        and all(map(internals.matters_for_compiling_only, context.enter_exit_hooks))
    )


def copy_wrapper(generic: FunctionType, function: FunctionType) -> None:
    """Give `function` the face of Dynamo's wrapper, by which Dynamo itself knows it, too."""
    function.__name__ = generic.__name__
    function.__qualname__ = generic.__qualname__
    function.__doc__ = generic.__doc__
    function.__module__ = generic.__module__
    function.__annotations__ = generic.__annotations__
    function.__dict__.update(generic.__dict__)
    function._torchdynamo_wrapper_id = id(function)  # type: ignore[attr-defined]
