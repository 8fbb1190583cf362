"""Specialising every graph from now on, whichever AOTAutograd backend compiles it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from . import internals
from .entry import enter
from .frames import stop
from .graph import prepare
from .guards import specialised_guard
from .layer import enabled

#: (class, attribute, what was there) of what is patched.
_installed: list[tuple[type, str, Any]] = []


def install() -> None:
    """Specialise every graph that is compiled from now on, and the way into it.

    Does nothing when it is installed already, or when this torch lacks something (with a warning).
    """
    if _installed or not enabled():
        return
    _patch(internals.aot_autograd_backend(), "__call__", _compile)
    _patch(internals.optimize_context(), "__call__", _wrap)
    _patch(internals.guard_manager(), "add_lambda_guard", _add_guard)


def _patch(cls: type, name: str, changed: Callable[..., Any]) -> None:
    """Have `changed(generic, instance, ...)` run in place of a method."""
    generic = vars(cls)[name]

    @functools.wraps(generic)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return changed(generic, self, *args, **kwargs)

    setattr(cls, name, method)
    _installed.append((cls, name, generic))


def _compile(generic: Callable[..., Any], backend: Any, *args: Any, **kwargs: Any) -> Any:
    """An AOTAutograd backend compiles a graph."""
    return prepare(generic(backend, *args, **kwargs))


def _wrap(generic: Callable[..., Any], context: Any, function: Any) -> Any:
    """Dynamo's context makes the wrapper that `torch.compile` returns."""
    return enter(context, generic(context, function))


def _add_guard(generic: Callable[..., Any], manager: Any, guard: Any, *rest: Any) -> Any:
    """A guard written in Python is added."""
    return generic(manager, specialised_guard(guard), *rest)


def uninstall() -> None:
    """Leave graphs compiled from now on generic; those already compiled keep their wrappers."""
    stop()
    while _installed:
        cls, name, generic = _installed.pop()
        setattr(cls, name, generic)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Specialise the graphs compiled inside a `with` block; inside another one it changes nothing."""
    before = bool(_installed)
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()
