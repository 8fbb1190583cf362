"""Specialising what a wrapper factory returned: a function, a callable instance, or several."""

from __future__ import annotations

import logging
from abc import ABCMeta
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from .evaluate.attributes import static_lookup

log = logging.getLogger("bcspec")

#: Given a function and the parameters that are always one object, specialises it.
Build = Callable[[FunctionType, Mapping[str, Any]], Any]

#: Marks the classes made here.
OWN = "__bcspec_own_class__"


def specialised_result(result: Any, build: Build) -> Any:
    """Specialise the function, or each of the functions, that a factory returned.

    Args:
        result: what it returned.
        build: specialises one function.

    Returns:
        The same with every function specialised, each once however often it is there; tuples, lists and
        dicts are new, anything else is the same object.
    """
    return _Visit(build).visit(result)


class _Visit:
    """One walk over a result; `done` gives for the ``id`` of an object what takes its place."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self.done: dict[int, Any] = {}

    def visit(self, item: Any) -> Any:
        if id(item) not in self.done:
            self.done[id(item)] = self.changed(item)
        return self.done[id(item)]

    def changed(self, item: Any) -> Any:
        if isinstance(item, FunctionType):
            return self.build(item, {})
        if type(item) is tuple:
            return tuple(map(self.visit, item))
        if type(item) in (list, dict):
            new = self.done[id(item)] = type(item)()  # it may lead back to itself
            if type(item) is list:
                new.extend(map(self.visit, item))
            else:
                new.update((key, self.visit(value)) for key, value in item.items())
            return new
        call = None if isinstance(item, type) else static_lookup(type(item), "__call__")
        if isinstance(call, FunctionType):
            specialise_instance(item, call, self.build)
        return item


def is_specialised_instance(obj: Any) -> bool:
    """Whether `specialise_instance` has given an object its class."""
    return OWN in vars(type(obj))


def specialise_instance(instance: Any, call: FunctionType, build: Build) -> None:
    """Give an instance a class of its own, whose ``__call__`` is specialised for it.

    The instance stays the same object; ``type(instance)`` becomes a subclass of its class.  Other
    instances that come to be of that class (copies, ``type(instance)(...)``) run the generic method.
    """
    cls = type(instance)
    if OWN in vars(cls) or not call.__code__.co_argcount:
        return
    why = runs_user_code(cls)
    fast = call if why else build(call, {call.__code__.co_varnames[0]: instance})
    if fast is not call:
        own = own_class(cls, fast)
        try:
            # Not `instance.__class__ = own`: a frozen dataclass refuses that.
            object.__setattr__(instance, "__class__", own)
        except TypeError as error:
            why = str(error)
    if why:
        log.warning("%s.__call__ was not specialised: %s", cls.__qualname__, why)


def runs_user_code(cls: type) -> str | None:
    """Why a subclass of `cls` cannot be made without running user code, None if it can."""
    if type(cls) not in (type, ABCMeta):
        return f"making a subclass would run its metaclass {type(cls).__qualname__}"
    if any("__init_subclass__" in vars(base) for base in cls.__mro__[:-1]):
        return "making a subclass would run its __init_subclass__"
    return None


def own_class(cls: type, call: Callable[..., Any]) -> type:
    """A subclass of `cls` with another ``__call__``, for one instance; everything else is as in `cls`."""
    namespace = {
        "__slots__": (),
        "__call__": call,
        "__class__": property(lambda self: cls, _change_class),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__reduce_ex__": reduce_as(cls),
        OWN: True,
    }
    own = type(cls)(cls.__name__, (cls,), namespace)
    own.__qualname__ = cls.__qualname__
    return own


def _change_class(instance: Any, cls: type) -> None:
    object.__dict__["__class__"].__set__(instance, cls)


def reduce_as(cls: type) -> Callable[[Any, Any], Any]:
    """`__reduce_ex__` for instances of a class made here: copies and pickles are of the user's class."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        reduced = super(type(self), self).__reduce_ex__(protocol)
        if not isinstance(reduced, tuple):
            return reduced
        own = type(self)
        function, args, *rest = reduced
        args = tuple(cls if arg is own else arg for arg in args)
        return (cls if function is own else function, args, *rest)

    return __reduce_ex__
