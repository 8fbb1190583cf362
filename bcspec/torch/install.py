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
from .layer import enabled

_installed: list[tuple[type, Any]] = []


def install() -> None:
    """Specialise every graph that is compiled from now on.

    Does nothing when it is installed already, or when this torch lacks something (with a warning).
    """
    if _installed or not enabled():
        return
    _after(internals.aot_autograd_backend(), lambda _, compiled: prepare(compiled))
    _after(internals.optimize_context(), enter)


def _after(cls: type, change: Callable[[Any, Any], Any]) -> None:
    """Have what calling an instance of `cls` gives go through `change(instance, result)`."""
    generic = cls.__call__

    @functools.wraps(generic)
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(self, generic(self, *args, **kwargs))

    cls.__call__ = changed  # type: ignore[method-assign]
    _installed.append((cls, generic))


def uninstall() -> None:
    """Leave graphs compiled from now on generic; those already compiled keep their wrappers."""
    stop()
    while _installed:
        cls, generic = _installed.pop()
        cls.__call__ = generic  # type: ignore[method-assign]


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
