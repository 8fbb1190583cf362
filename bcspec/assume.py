"""Watching assumptions: what tells us that a definition in a module has been rebound.

On CPython 3.11 a module is watched by giving it a class that sees ``setattr`` (what
``unittest.mock.patch`` and monkeypatching use).  Writing to the module's dictionary behind its back
is not seen; a function that rebinds the name with ``global`` is found by scanning, and the name is
then not assumed in the first place (`bcspec.evaluate.facts`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

#: For each watched module and variable, whom to tell; weak, so that graphs and modules can die.
_listeners: weakref.WeakKeyDictionary[ModuleType, dict[str, weakref.WeakSet[Listener]]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.RLock()

#: Modules that have a class of ours.
_changed: weakref.WeakSet[ModuleType] = weakref.WeakSet()

#: Modules whose code runs once more (``importlib.reload``), which binds variables unseen.
_run_again: weakref.WeakSet[ModuleType] = weakref.WeakSet()


class Listener:
    """Called once, with a reason, when an assumption breaks; keep it alive with what depends on it."""

    __slots__ = ("__weakref__", "action")

    def __init__(self, action: Callable[[str], None]) -> None:
        self.action = action


def _after_fork() -> None:
    """In a new process no other thread can hold the lock, though one may have when it was made."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def watchable(module: ModuleType) -> bool:
    """Whether rebinding a variable of `module` can be noticed."""
    if isinstance(module, Watched):
        return module not in _run_again
    cls = type(module)
    watched = type(cls.__name__, (Watched, cls), {"__module__": cls.__module__})
    try:
        module.__class__ = watched
    except (TypeError, AttributeError):
        return False  # it decides about its own attributes
    if not isinstance(module, Watched):
        return False
    _changed.add(module)
    return True


def watch_module(module: ModuleType, name: str, value: Any, listener: Listener) -> bool:
    """Tell `listener` when a global is rebound or deleted; at once if that has already happened.

    Args:
        module: a module object.
        name: the variable.
        value: what it is assumed to be.
        listener: kept weakly.

    Returns:
        False when the module cannot be watched.
    """
    with _lock:
        if not watchable(module):
            return False
        names = _listeners.setdefault(module, {})
        names.setdefault(name, weakref.WeakSet()).add(listener)
    if vars(module).get(name, listener) is not value:
        notify(module, name)
    return True


def release() -> None:
    """Make modules that nothing relies on any more as they were before."""
    with _lock:
        for module in list(_changed):
            if not any(_listeners.get(module, {}).values()):
                _listeners.pop(module, None)
                _changed.discard(module)
                module.__class__ = type(module).__bases__[1]


def notify(module: ModuleType, name: str) -> None:
    """Break the assumptions about a variable that has changed."""
    if name not in _listeners.get(module, {}):
        return
    with _lock:
        listeners = _listeners.get(module, {}).pop(name, None)
    for listener in list(listeners or ()):
        listener.action(f"{module.__name__}.{name} was rebound")


class Watched(ModuleType):
    """A module that notices when one of its variables is set or deleted."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A reload begins so; a first import does, too, once `sys` is watched: the import system makes
        # modules of the class that `sys` has.
        again = name == "__spec__" and vars(self).get(name) is not None
        super().__setattr__(name, value)
        if again:
            _run_again.add(self)
            for each in list(_listeners.get(self, {})):
                notify(self, each)
        notify(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        notify(self, name)
