"""Where bcspec hooks into torch, and for whom: every graph after `install()`, or those of a bcspec backend."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..api import partial_eval
from ..assume import release
from . import internals
from .entry import dispatch, enter, enter_module
from .frames import stop
from .graph import prepare
from .guards import helper_knowledge, specialised_guard
from .layer import enabled

#: Why it is patched: "installed" for every graph, "backend" for those of a bcspec backend.
_reasons: set[str] = set()

#: Attribute of the backends whose graphs are always specialised.
BACKEND = "__bcspec_backend__"

#: `compile_id`: the compile in which a bcspec backend was called last in this thread.
_latest = threading.local()


def install() -> None:
    """Specialise every graph that is compiled from now on, and the way into it.

    Does nothing when it is installed already, or when this torch lacks something (with a warning).
    """
    hook("installed")


def uninstall() -> None:
    """Leave graphs compiled from now on generic; those already compiled keep their wrappers."""
    unhook("installed")


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Specialise the graphs compiled inside a `with` block; inside another one it changes nothing."""
    before = "installed" in _reasons
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def hook(reason: str) -> None:
    """Hook into torch for one more reason, unless bcspec is turned off here."""
    if enabled():
        _reasons.add(reason)
        _patch_places()


def unhook(reason: str) -> bool:
    """Drop one of the reasons to hook into torch.

    Returns:
        Whether it was one.
    """
    if reason not in _reasons:
        return False
    _reasons.discard(reason)
    _patch_places()
    gc.collect()
    release()  # no module is watched for what has just gone
    return True


def _patch_places() -> None:
    """Have patched what the present reasons need, and nothing else."""
    for place in PLACES.values():
        wanted = not _reasons.isdisjoint(place.reasons)
        if wanted and place.generic is None:
            place.patch()
        elif not wanted and place.generic is not None:
            place.restore()
    if not _reasons:
        stop()


@dataclass
class Place:
    """A method or function of torch in whose place one of ours runs.

    Attributes:
        owner: gives the class or module.
        name: of the method.
        changed: given the generic method, makes the one in its place.
        reasons: for which it is patched.
        generic: what was there, while it is patched.
    """

    owner: Callable[[], Any]
    name: str
    changed: Callable[..., Any]
    reasons: tuple[str, ...]
    generic: Callable[..., Any] | None = None

    def patch(self) -> None:
        generic = vars(self.owner())[self.name]
        setattr(self.owner(), self.name, functools.wraps(generic)(self.changed(generic)))
        self.generic = generic

    def restore(self) -> None:
        setattr(self.owner(), self.name, self.generic)
        self.generic = None


Method = Callable[..., Any]


def _compiling_backend(generic: Method) -> Method:
    """An AOTAutograd backend compiles a graph."""

    def compile_graph(backend: Any, *args: Any, **kwargs: Any) -> Any:
        return prepare(generic(backend, *args, **kwargs))

    return compile_graph


def _wrapping(generic: Method) -> Method:
    """Dynamo's context makes the wrapper that `torch.compile` returns."""

    def wrap(context: Any, function: Any) -> Any:
        wrapper = generic(context, function)
        return enter(context, wrapper) if ours(context) else wrapper

    return wrap


def ours(context: Any) -> bool:
    """Whether what a context compiles is to be specialised."""
    if not enabled():
        return False
    return "installed" in _reasons or hasattr(
        internals.registered_backend(context.callback), BACKEND
    )


def _adding_guard(generic: Method) -> Method:
    """A guard written in Python is added, after the frame's graph has been compiled."""

    def add_guard(manager: Any, guard: Any, *rest: Any) -> Any:
        wanted = "installed" in _reasons or _compiling() == getattr(_latest, "compile_id", None)
        return generic(manager, specialised_guard(guard) if wanted and enabled() else guard, *rest)

    return add_guard


#: Name in the dictionary of a compiled module under which its entry lies.
ENTRY = "_bcspec_entry"


def _initializing_module(generic: Method) -> Method:
    """A module that `torch.compile` made wraps what it calls."""

    def initialize(module: Any) -> None:
        generic(module)
        call = PLACES["module call"].generic
        entry = enter_module(module, call) if call is not None else None
        if entry is not None:
            vars(module)[ENTRY] = entry

    return initialize


def _calling_module(generic: Method) -> Method:
    """A module that `torch.compile` made is called."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        entry = self.__dict__.get(ENTRY)
        if entry is None:
            return generic(self, *args, **kwargs)
        return dispatch(entry, args, kwargs)

    residual = partial_eval(call)
    internals.keep_dynamo_out(residual)
    return residual


def _helping_frames(generic: Method) -> Method:
    """What Dynamo's frames call around a graph, without `disable` around it."""
    plain = inspect.unwrap(generic)
    residual = partial_eval(plain, knowledge=helper_knowledge())
    if residual is plain:
        return generic
    internals.keep_dynamo_out(residual, of_callees=True)
    return residual


def _compiling() -> Any:
    """What identifies the compile that goes on in this thread; never None."""
    return internals.current_compile_id()() or "none"


def backend_is_called() -> None:
    """A bcspec backend compiles a graph: the guards of its frame, made next, are specialised, too."""
    _latest.compile_id = _compiling()


_EVERY = ("installed", "backend")

PLACES = {
    "graph": Place(internals.aot_autograd_backend, "__call__", _compiling_backend, ("installed",)),
    "wrapper": Place(internals.optimize_context, "__call__", _wrapping, _EVERY),
    "guard": Place(internals.guard_manager, "add_lambda_guard", _adding_guard, _EVERY),
    "module call": Place(internals.optimized_module, "__call__", _calling_module, _EVERY),
    "module": Place(internals.optimized_module, "_initialize", _initializing_module, _EVERY),
    **{
        name: Place(internals.frame_helper_module, name, _helping_frames, _EVERY)
        for name in internals.FRAME_HELPERS
    },
}
