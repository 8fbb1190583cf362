"""The entry of a compiled function: what `torch.compile` returns while bcspec is installed.

A function of one line stands in front of Dynamo's wrapper.  At first it calls the wrapper; once a graph
has settled it calls the direct way into it (`bcspec.torch.direct`), which falls back to the next
cache entry's and in the end to the wrapper.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Collection
from types import CodeType, FunctionType
from typing import Any

from ..errors import BcspecError, SpecializationError
from . import internals
from .calls import Shape, Target, compiled_function, prefer
from .frames import TransformedFrame, listen, record_of
from .stats import counts
from .ways import Way, build

log = logging.getLogger("bcspec.torch")

#: Calls through the generic wrapper that are looked at after a compile; then it is left alone.
OBSERVED_CALLS = 20

#: Runs of a transformed frame before the direct way is built: the graph's own wrappers settle first.
SETTLED_AFTER = 2

#: Direct ways built for one compiled function in all.
MOST_BUILT = 16

_SUSPENDS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator

#: Compiled functions by the code that Dynamo compiles for them.
_entries: weakref.WeakKeyDictionary[CodeType, weakref.WeakSet[Entry]] = weakref.WeakKeyDictionary()


#: What calls of one shape have in common: how many arguments are passed by position; where others are
#: passed by keyword, their names with it.
Key = int | tuple[int | str, ...]


class Entry:
    """What is known of one compiled function or module.

    Attributes:
        context: Dynamo's context, which made the wrapper.
        called: what the wrapper calls.
        hosts: the module that `torch.compile` made, if what it is called through is one.
        generic: Dynamo's wrapper, or the call of that module.
        name: how messages call it.
        compiled: the function in front, None for a module.
        heads: the first direct way for each shape.
        last: runs calls for which there is none.
        call: runs any call.
        direct: runs calls with `preferred` positional arguments and no others.
    """

    def __init__(self, context: Any, wrapper: FunctionType) -> None:
        self.context = context
        self.called = wrapper._torchdynamo_orig_callable  # type: ignore[attr-defined]
        self.hosts: tuple[Any, ...] = ()
        self.generic: Callable[..., Any] = wrapper
        self.name = wrapper.__qualname__
        self.ways: list[Way] = []
        self.built = 0
        self.declined: set[tuple[TransformedFrame, Shape | None]] = set()
        self.remaining = 0
        self.busy = threading.Lock()
        self.compiled: weakref.ref[FunctionType] | None = None
        self.preferred: int | None = None
        self.heads: dict[Key, Callable[..., Any]] = {}
        self.last: Callable[..., Any] = wrapper
        self.call: Callable[..., Any] = wrapper
        self.direct: Callable[..., Any] = wrapper

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of what holds an entry make one of their own."""
        return type(None), ()

    def observe(self) -> None:
        """Look at the next generic calls: the graph may have settled after one of them."""
        self.remaining = OBSERVED_CALLS if self.built < MOST_BUILT else 0
        self.relink()

    def retire(self) -> None:
        """Call the wrapper from now on."""
        self.remaining, self.built = 0, MOST_BUILT
        self.relink()

    def relink(self) -> None:
        """Call the direct ways for each shape in Dynamo's order, and after them the wrapper."""
        last: Callable[..., Any] = self.observed if self.remaining > 0 else self.generic
        heads: dict[Key, Callable[..., Any]] = {}
        for way in reversed(self.ways):
            key = key_of(way.shape.count, way.shape.keywords)
            way.link(heads.get(key) or by_keyword(last, way.shape))
            heads[key] = way.function
        self.last, self.heads = last, heads
        self.call = self.dispatched if heads else last
        self.direct = last if self.preferred is None else heads.get(self.preferred, last)

    def dispatched(self, *args: Any, **kwargs: Any) -> Any:
        """A call of any shape, while there are direct ways."""
        return dispatch(self, args, kwargs)

    def prefer(self, count: int) -> None:
        """Look for calls with so many positional arguments first; once chosen this stays, since
        a call may be on its way."""
        function = self.compiled() if self.compiled is not None else None
        if self.preferred is None and function is not None:
            self.preferred = count
            self.relink()
            prefer(function, count, self)

    def observed(self, *args: Any, **kwargs: Any) -> Any:
        """A call through the generic wrapper."""
        result = self.generic(*args, **kwargs)
        self.remaining -= 1
        if self.busy.acquire(blocking=False):
            try:
                self.look(args, kwargs)
            except Exception:
                # The user's program runs without us; what went wrong is no business of its own.
                log.exception("%s stays generic: unexpected error", self.name)
                self.remaining = 0
            finally:
                if self.remaining <= 0:
                    self.relink()
                self.busy.release()
        return result

    def look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Build the direct way to the cache entry that has just been used, if it has settled."""
        target = Target.of(self.called, *self.hosts)
        found = self.last_used(target) if target is not None else None
        if target is None or found is None:
            return
        frame, root = found
        frame.hits += 1
        shape = Shape.of(target, args, kwargs)
        if frame.hits < SETTLED_AFTER or (frame, shape) in self.declined:
            return
        if any(way.frame is frame and way.shape == shape for way in self.ways):
            return
        try:
            with counts.timed():
                way = self.build(frame, root, target, shape, (*args, *kwargs.values()))
        except BcspecError as error:
            self.declined.add((frame, shape))
            frame.ended.append(_forget(self))
            counts.declined[str(error)] += 1
            log.info("%s stays generic: %s", self.name, error)
            return
        if frame.alive:
            counts.specialised["entry"] += 1
            log.info("%s specialised: one frame from the call to the kernel", self.name)
            self.ways.insert(0, way)
            frame.ended.append(_forget(self))
            self.relink()
            if not way.shape.keywords:
                self.prefer(way.shape.count)

    def last_used(self, target: Target) -> tuple[TransformedFrame, Any] | None:
        """The record and the guards of Dynamo's most recent cache entry for this backend."""
        backend = internals.innermost_backend()(self.context.callback)
        for cached in internals.cache_entries()(target.function.__code__, -1):
            if cached.backend == backend:
                frame = record_of(cached.code)
                return (frame, cached.guard_manager.root) if frame is not None else None
        return None

    def build(
        self,
        frame: TransformedFrame,
        root: Any,
        target: Target,
        shape: Shape | None,
        values: tuple[Any, ...],
    ) -> Way:
        """Specialise the direct way for one cache entry and one way to pass arguments.

        Raises:
            SpecializationError: the frame, or the call, is not of the usual kind.
        """
        if not internals.stance_is_default()():
            raise SpecializationError("the stance is not the default one")
        if shape is None:
            raise SpecializationError("the call does not fit its parameters")
        self.built += 1
        return build(frame, root, target, shape, values)


def dispatch(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of any shape: the direct way for its shape if there is one."""
    head = entry.heads.get(key_of(len(args), kwargs))
    if head is None:
        return entry.last(*args, **kwargs)
    return head(*args, *kwargs.values()) if kwargs else head(*args)


def key_of(count: int, keywords: Collection[str]) -> Key:
    """The key of a shape."""
    return (count, *keywords) if keywords else count


def by_keyword(function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
    """A function that takes all arguments by position and passes those of a shape on by keyword."""
    count, names = shape.count, shape.keywords
    if not names:
        return function

    def call(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    assert isinstance(call, FunctionType)
    internals.keep_dynamo_out(call)
    return call


def _forget(entry: Entry) -> Callable[[TransformedFrame], None]:
    """Takes all that concerns a frame out of an entry that may be gone itself."""
    reference = weakref.ref(entry)

    def forget(frame: TransformedFrame) -> None:
        found = reference()
        if found is None:
            return
        found.declined = {each for each in found.declined if each[0] is not frame}
        kept = [way for way in found.ways if way.frame is not frame]
        counts.invalidated += len(found.ways) - len(kept)
        found.ways = kept
        found.observe()

    return forget


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

    compiled = compiled_function(entry)
    entry.compiled = weakref.ref(compiled)
    for function in (Entry.observed, Entry.dispatched, dispatch):
        internals.keep_dynamo_out(function)
    # Another compiled function may be running these frames under Dynamo.
    for function in (Entry.look, Entry.relink):
        internals.keep_dynamo_out(function, of_callees=True)
    copy_wrapper(generic, compiled)
    _register(entry)
    return compiled


def enter_module(module: Any, generic: Callable[..., Any]) -> Entry | None:
    """The entry of a module that `torch.compile` made, in place of that of its `forward`.

    Args:
        module: whose `forward` has just been wrapped.
        generic: the method that runs when it is called.
    """
    forward = entry_of(vars(module).get("forward"))
    if forward is None:
        return None
    forward.retire()
    entry = Entry(forward.context, forward.generic)  # type: ignore[arg-type]
    entry.hosts = (module,)
    entry.generic = functools.partial(generic, module)
    _register(entry)
    return entry


def entry_of(function: Any) -> Entry | None:
    """The entry behind what `enter` returned, None for anything else."""
    if not isinstance(function, FunctionType) or function.__closure__ is None:
        return None
    entry = function.__closure__[0].cell_contents if len(function.__closure__) == 1 else None
    return entry if isinstance(entry, Entry) else None


def _register(entry: Entry) -> None:
    """Have an entry look at its first calls, and at those after each compile of its code."""
    target = Target.of(entry.called, *entry.hosts)
    assert target is not None
    _entries.setdefault(target.function.__code__, weakref.WeakSet()).add(entry)
    listen(_compiled_anew)
    entry.observe()


def _compiled_anew(frame: TransformedFrame) -> None:
    """Dynamo has transformed a frame: whoever runs its code has something to look at."""
    code = frame.original()
    for entry in list(_entries.get(code, ())) if code is not None else ():
        entry.observe()


def understood(context: Any, generic: FunctionType) -> bool:
    """Whether the wrapper does what the direct way knows: nothing is set up around each call that
    matters when nothing is compiled."""
    target = Target.of(getattr(generic, "_torchdynamo_orig_callable", None))
    return (
        target is not None
        and not target.function.__code__.co_flags & _SUSPENDS
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
