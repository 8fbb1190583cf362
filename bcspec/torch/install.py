"""Where bcspec hooks into torch, and for whom: every graph after `install()`, or those of a bcspec backend."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import internals
from .entry import enter
from .frames import stop
from .graph import prepare
from .guards import specialised_guard
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
    _reasons.discard("installed")
    _patch_places()


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


def _patch_places() -> None:
    """Have patched what the present reasons need, and nothing else."""
    for place in PLACES:
        wanted = not _reasons.isdisjoint(place.reasons)
        if wanted and place.generic is None:
            place.patch()
        elif not wanted and place.generic is not None:
            place.restore()
    if not _reasons:
        stop()


@dataclass
class Place:
    """A method of torch in whose place one of ours runs.

    Attributes:
        owner: gives the class.
        name: of the method.
        changed: called with the generic method, the instance and the arguments.
        reasons: for which it is patched.
        generic: what was there, while it is patched.
    """

    owner: Callable[[], type]
    name: str
    changed: Callable[..., Any]
    reasons: tuple[str, ...]
    generic: Callable[..., Any] | None = None

    def patch(self) -> None:
        generic, changed = vars(self.owner())[self.name], self.changed

        @functools.wraps(generic)
        def method(instance: Any, *args: Any, **kwargs: Any) -> Any:
            return changed(generic, instance, *args, **kwargs)

        setattr(self.owner(), self.name, method)
        self.generic = generic

    def restore(self) -> None:
        setattr(self.owner(), self.name, self.generic)
        self.generic = None


def _compile(generic: Callable[..., Any], backend: Any, *args: Any, **kwargs: Any) -> Any:
    """An AOTAutograd backend compiles a graph."""
    return prepare(generic(backend, *args, **kwargs))


def _wrap(generic: Callable[..., Any], context: Any, function: Any) -> Any:
    """Dynamo's context makes the wrapper that `torch.compile` returns."""
    wrapper = generic(context, function)
    if not enabled():
        return wrapper
    ours = "installed" in _reasons or hasattr(
        internals.registered_backend(context.callback), BACKEND
    )
    return enter(context, wrapper) if ours else wrapper


def _add_guard(generic: Callable[..., Any], manager: Any, guard: Any, *rest: Any) -> Any:
    """A guard written in Python is added, after the frame's graph has been compiled."""
    ours = "installed" in _reasons or _compiling() == getattr(_latest, "compile_id", None)
    return generic(manager, specialised_guard(guard) if ours and enabled() else guard, *rest)


def _compiling() -> Any:
    """What identifies the compile that goes on in this thread; never None."""
    return internals.current_compile_id()() or "none"


def backend_is_called() -> None:
    """A bcspec backend compiles a graph: the guards of its frame, made next, are specialised, too."""
    _latest.compile_id = _compiling()


PLACES = (
    Place(internals.aot_autograd_backend, "__call__", _compile, ("installed",)),
    Place(internals.optimize_context, "__call__", _wrap, ("installed", "backend")),
    Place(internals.guard_manager, "add_lambda_guard", _add_guard, ("installed", "backend")),
)
