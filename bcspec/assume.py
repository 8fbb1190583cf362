"""Watching assumptions: what tells us that a definition in a module has been rebound.

On CPython 3.11 a module is watched by giving it a class that sees ``setattr`` (what
``unittest.mock.patch`` and monkeypatching use).  Writing to the module's dictionary behind its back
is not seen; a function that rebinds the name with ``global`` is found by scanning, and the name is
then not assumed in the first place (`bcspec.evaluate.facts`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

#: For each watched module (by name) and variable, whom to tell; weak, so that graphs can die.
_listeners: dict[tuple[str, str], weakref.WeakSet[Any]] = {}
_lock = threading.Lock()


class Listener:
    """Called once, with a reason, when an assumption breaks; keep it alive with what depends on it."""

    __slots__ = ("__weakref__", "action")

    def __init__(self, action: Callable[[str], None]) -> None:
        self.action = action


def watch_module(module: ModuleType, name: str, listener: Listener) -> bool:
    """Tell `listener` when the global `name` of `module` is rebound or deleted.

    Args:
        module: a module object.
        name: the variable.
        listener: kept weakly.

    Returns:
        False when the module cannot be watched.
    """
    if not isinstance(module, Watched) and not _change_class(module):
        return False
    with _lock:
        _listeners.setdefault((module.__name__, name), weakref.WeakSet()).add(listener)
    return True


def _change_class(module: ModuleType) -> bool:
    cls = type(module)
    watched = type(cls.__name__, (Watched, cls), {"__module__": cls.__module__})
    try:
        module.__class__ = watched
    except TypeError:
        return False
    return True


def notify(module: ModuleType, name: str) -> None:
    """Break the assumptions about a variable that is about to change."""
    with _lock:
        listeners = _listeners.pop((module.__name__, name), None)
    for listener in list(listeners or ()):
        listener.action(f"{module.__name__}.{name} was rebound")


class Watched(ModuleType):
    """A module that notices when one of its variables is set or deleted."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if (self.__name__, name) in _listeners:
            notify(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if (self.__name__, name) in _listeners:
            notify(self, name)
