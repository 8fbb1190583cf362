"""What a user or an integration declares about objects that nothing can prove or watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class EntryGuard:
    """A flag that is read before the first effect of every call.

    Attributes:
        owner: object that has the attribute (a module, a configuration object, a class).
        attribute: its name; with ``call`` the attribute is called without arguments.
        expected: the value under which the residual function is right (compared with ``is``).
        reason: why it cannot be watched and does not change during a call.
        call: whether the attribute is a function to be called.
    """

    owner: Any
    attribute: str
    expected: Any
    reason: str
    call: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading an attribute gives, for objects that look attributes up in a way of their own.

    Attributes:
        value: the present value.
        reason: why it may be taken as constant.
        guard: what to read at each call to notice a change, or None if it cannot change.
    """

    value: Any
    reason: str
    guard: EntryGuard | None = None


@dataclass(frozen=True, slots=True)
class Equivalent:
    """What may be called in place of a function.

    Attributes:
        function: called with the same arguments.
        guards: what has to be the case for that.
    """

    function: Callable[..., Any]
    guards: tuple[EntryGuard, ...] = ()


#: A call gives back its first argument.
FIRST = object()


@dataclass(frozen=True, slots=True)
class Established:
    """A call that need not be made any more, since what it would find out is known.

    Attributes:
        function: what is called, with an object about which something is known first.
        holds: given the other arguments, which are constants, whether the call has no effect.
        gives: what it returns; `FIRST`: its first argument.
        grouped: it is called with a tuple of such objects, has no effect if that is so for each, and
            `holds` is given the place of this one and their number before the other arguments.
    """

    function: Callable[..., Any]
    holds: Callable[..., bool]
    gives: Any = None
    grouped: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Ambient:
    """A state of the thread that `Request.check` looks at, and that is known once it has said yes.

    Attributes:
        read: called without arguments, gives the state.
        set: called with a state, makes it that.
        value: the state after the yes (compared with ``is``).
    """

    read: Callable[[], Any]
    set: Callable[[Any], None]
    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Refinement:
    """What is known of an object besides its exact class; it may stand wherever that does.

    Attributes:
        cls: its exact class, None if that is not known.
        established: calls with it as their first argument that need not be made.
        attributes: the same of its attributes, from the moment that `Request.check` has said yes until
            something runs that could change them.  Loading one runs no code of anyone's.
        items: likewise of its items, by key.
    """

    cls: type | None = None
    established: tuple[Established, ...] = ()
    attributes: dict[str, Refinement] = field(default_factory=dict)
    items: dict[Any, Refinement] = field(default_factory=dict)


@dataclass(slots=True)
class Knowledge:
    """Declared facts; every entry carries its reason.

    Attributes:
        frozen_types: classes whose instances never change an attribute once specialised.
        frozen_attributes: (class, attribute name) that never changes once set.
        frozen_objects: single objects (by ``id``) whose attributes and items never change.
        stable_modules: modules whose global names are never rebound.
        stable_globals: (module name, variable) that is never rebound.
        constant_cells: qualified names of functions (``module.qualname`` prefix) whose closure
            cells are never rebound.
        deep_cells: (function as in `constant_cells`, variable) whose container never changes.
        pure: callables that may be run at specialisation time on constant arguments.
        no_unfold: callables that stay calls.
        outlined: functions (``module.qualname``) off the usual path: they stay calls.
        result_types: exact type of what a callable returns.
        result_lengths: number of items of the tuple that a callable makes for its caller.
        ambient: states of the thread that are known for some time.
        undisturbing: callables that leave all of those as they are.
        entry_guards: flags read at each call; reading such a flag later gives the expected value.
        readers: asked for ``(object, attribute)`` before the ordinary look-up.
        frozen_namespaces: asked for the globals of a function: why no name in them is rebound.
        stable_types: values of these types count as definitions when a module global names them.
        unshadowed: classes whose instances never hide a method by an attribute.
        class_attributes: (class, name of an attribute of it) that is never rebound and that no
            instance hides; the class itself has the attribute.
        keeps_instances: classes whose instances are never given another class.
        attribute_types: exact type of an attribute of an object (by ``id`` and name), or what else
            is known of it.
        volatile: attributes of an object (by ``id`` and name) that are read at each call, though they
            look like definitions.
        equivalents: functions in whose place another one is called: one that sets up what is the
            case wherever the residual function runs, and what it wraps.
    """

    frozen_types: dict[type, str] = field(default_factory=dict)
    frozen_attributes: dict[tuple[type, str], str] = field(default_factory=dict)
    frozen_objects: dict[int, tuple[Any, str]] = field(default_factory=dict)
    stable_modules: dict[str, str] = field(default_factory=dict)
    stable_globals: dict[tuple[str, str], str] = field(default_factory=dict)
    constant_cells: dict[str, str] = field(default_factory=dict)
    deep_cells: dict[tuple[str, str], str] = field(default_factory=dict)
    pure: dict[Callable[..., Any], str] = field(default_factory=dict)
    no_unfold: dict[Any, str] = field(default_factory=dict)
    outlined: dict[str, str] = field(default_factory=dict)
    result_types: dict[Callable[..., Any], type] = field(default_factory=dict)
    result_lengths: dict[Callable[..., Any], int] = field(default_factory=dict)
    ambient: list[Ambient] = field(default_factory=list)
    undisturbing: dict[Callable[..., Any], str] = field(default_factory=dict)
    entry_guards: list[EntryGuard] = field(default_factory=list)
    readers: list[Callable[[Any, str], Reading | None]] = field(default_factory=list)
    frozen_namespaces: list[Callable[[dict[str, Any]], str | None]] = field(default_factory=list)
    stable_types: dict[type, str] = field(default_factory=dict)
    unshadowed: dict[type, str] = field(default_factory=dict)
    class_attributes: dict[tuple[type, str], str] = field(default_factory=dict)
    keeps_instances: dict[type, str] = field(default_factory=dict)
    attribute_types: dict[tuple[int, str], type | Refinement] = field(default_factory=dict)
    volatile: dict[tuple[int, str], str] = field(default_factory=dict)
    equivalents: dict[FunctionType, Equivalent] = field(default_factory=dict)

    def freeze(self, obj: Any, reason: str) -> None:
        """Declare that the attributes and items of `obj` never change."""
        self.frozen_objects[id(obj)] = (obj, reason)

    def expect(self, function: FunctionType, cls: type, reason: str) -> None:
        """Declare that the first argument of a function is most often exactly of one class.

        Calls are unfolded for that class, behind a test; others stay calls.
        """
        usual, other = copied(function), copied(function)

        def expecting(first: Any, *args: Any, **kwargs: Any) -> Any:
            if type(first) is cls:
                return usual(first, *args, **kwargs)
            return other(first, *args, **kwargs)

        assert isinstance(expecting, FunctionType)
        self.equivalents[function] = Equivalent(expecting)
        self.no_unfold[other] = f"only for arguments that are not of class {cls.__qualname__}"
        self.keeps_instances[cls] = reason

    def merged(self, other: Knowledge) -> Knowledge:
        """Both tables together; `other` wins."""
        merged = Knowledge()
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            both = [*mine, *theirs] if isinstance(mine, list) else {**mine, **theirs}
            setattr(merged, name, both)
        return merged


def copied(function: FunctionType) -> FunctionType:
    """Another function that does the same."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
