"""The public functions: specialise a function or what a wrapper factory returns."""

from __future__ import annotations

import functools
import logging
import os
import types as types_module
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, overload

from . import install
from .assume import Listener, watch_module
from .errors import BcspecError, SpecializationError
from .evaluate import Request, evaluate
from .evaluate.attributes import static_lookup
from .knowledge import EntryGuard, Knowledge
from .report import explain_record

log = logging.getLogger("bcspec")

F = TypeVar("F", bound=Callable[..., Any])

#: What users have declared with `assume_constant`.
_declared = Knowledge()

#: Listeners live as long as the residual function that depends on them.
_listeners: weakref.WeakKeyDictionary[FunctionType, Listener] = weakref.WeakKeyDictionary()


def disabled() -> bool:
    """Whether ``BCSPEC_DISABLE`` turns everything off."""
    return os.environ.get("BCSPEC_DISABLE", "") not in ("", "0")


def partial_eval(
    f: F,
    constants: Mapping[str, Any] | None = None,
    *,
    types: Mapping[str, type] | None = None,
    knowledge: Knowledge | None = None,
    guards: Iterable[EntryGuard] = (),
    strict: bool = False,
    after: int = 0,
) -> F:
    """Specialise a function for what is constant from now on.

    Args:
        f: a Python function (or a bound method, whose instance is then constant).
        constants: parameters with a fixed value; they disappear from the signature.
        types: exact types of parameters.
        knowledge: what is declared about objects that nothing can prove or watch.
        guards: flags read at the start of each call; while one differs the generic function runs.
        strict: raise instead of giving the generic function back.
        after: calls that run the generic function first, for state that settles (flags of a first call,
            tables built lazily); not together with `constants` or `strict`.

    Returns:
        The specialised function, or `f` itself with one reason logged. When an assumption breaks it is
        specialised again at its next call, three times at most; then it stays generic.

    Raises:
        SpecializationError: in strict mode only; names function, place and reason.
        TypeError: `constants` names no parameter of `f`.
        ValueError: `after` is given together with `constants` or `strict`.
    """
    if after and (constants or strict):
        raise ValueError("after cannot be combined with constants or strict")
    if disabled():
        return functools.partial(f, **constants) if constants else f  # type: ignore[return-value]
    if after and isinstance(f, FunctionType):
        return settled(f, after, types, knowledge, tuple(guards))  # type: ignore[return-value]
    return specialised(f, constants, types, knowledge, tuple(guards), strict, AGAIN)  # type: ignore[no-any-return]


#: How often a function is specialised again after an assumption has broken.
AGAIN = 3


def specialised(
    f: Any,
    constants: Mapping[str, Any] | None,
    types: Mapping[str, type] | None,
    knowledge: Knowledge | None,
    guards: tuple[EntryGuard, ...],
    strict: bool,
    again: int,
) -> Any:
    """`partial_eval` at once; `again` is how often it may be repeated when an assumption breaks."""
    fixed = dict(constants or {})
    function = as_function(f, fixed)
    if function is None:
        return refuse(f, fixed, "it is not a Python function", strict)
    unknown = set(fixed) - set(function.__code__.co_varnames[: parameters(function)])
    if unknown:
        raise TypeError(f"{function.__qualname__} has no parameter {', '.join(sorted(unknown))}")
    table = _declared.merged(knowledge or Knowledge())
    table.entry_guards = [*table.entry_guards, *guards]
    request = Request(function, constants=fixed, types=dict(types or {}), knowledge=table)
    try:
        residual = evaluate(request)
        fast = install.build(request, residual)
    except BcspecError as error:
        return refuse(f, fixed, str(error), strict)
    except Exception as error:  # a fault of bcspec must not cost users their function
        log.debug("details", exc_info=True)
        return refuse(f, fixed, f"internal fault, {type(error).__name__}: {error}", strict)
    record = install.record_of(fast)
    if record is not None and not fixed:
        record.again = functools.partial(once_more, function, types, knowledge, guards, again - 1)
    watch(fast)
    return fast


def once_more(
    function: FunctionType,
    types: Mapping[str, type] | None,
    knowledge: Knowledge | None,
    guards: tuple[EntryGuard, ...],
    again: int,
) -> Any:
    """Specialise a function whose assumptions have broken, unless that has happened too often."""
    if again < 0:
        log.warning("%s stays generic: its assumptions broke too often", function.__qualname__)
        return function
    return specialised(function, None, types, knowledge, guards, False, again)


def settled(
    function: FunctionType,
    after: int,
    types: Mapping[str, type] | None,
    knowledge: Knowledge | None,
    guards: tuple[EntryGuard, ...],
) -> FunctionType:
    """A function that is specialised after a number of calls."""
    build = functools.partial(specialised, function, None, types, knowledge, guards, False, AGAIN)
    later = install.Later(function, build, after)
    try:
        stand_in, later.cell = install.forwarder(function, later)
    except BcspecError as error:
        return refuse(function, {}, str(error), strict=False)  # type: ignore[no-any-return]
    return stand_in


def as_function(f: Any, fixed: dict[str, Any]) -> FunctionType | None:
    """The plain function behind `f`; the instance of a bound method becomes a constant."""
    if isinstance(f, MethodType) and isinstance(f.__func__, FunctionType):
        names = f.__func__.__code__.co_varnames
        if f.__func__.__code__.co_argcount:
            fixed.setdefault(names[0], f.__self__)
            return f.__func__
    return f if isinstance(f, FunctionType) else None


def parameters(function: FunctionType) -> int:
    """How many named parameters a function has."""
    return function.__code__.co_argcount + function.__code__.co_kwonlyargcount


def refuse(f: Any, fixed: dict[str, Any], why: str, strict: bool) -> Any:
    """Keep the generic function and say why."""
    code = getattr(f, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    message = f"{getattr(f, '__qualname__', repr(f))}{where} was not specialised: {why}"
    if strict:
        raise SpecializationError(message)
    log.warning("%s", message)
    if isinstance(f, MethodType):
        return f
    return functools.partial(f, **fixed) if fixed else f


def watch(fast: FunctionType) -> None:
    """Have a residual function told when a definition it relies on is rebound."""
    record = install.record_of(fast)
    assert record is not None
    reference = weakref.ref(fast)

    def broken(why: str) -> None:
        function = reference()
        if function is not None:
            install.invalidate(function, why)

    listener = Listener(broken)
    _listeners[fast] = listener
    for assumption in record.assumptions:
        if assumption.kind == "watched" and isinstance(assumption.subject, ModuleType):
            watch_module(assumption.subject, assumption.name, listener)


@overload
def specialize(factory: F) -> F: ...
@overload
def specialize(
    *,
    knowledge: Knowledge | None = ...,
    guards: Iterable[EntryGuard] = ...,
    strict: bool = ...,
    after: int = ...,
) -> Callable[[F], F]: ...


def specialize(
    factory: Any = None,
    *,
    knowledge: Knowledge | None = None,
    guards: Iterable[EntryGuard] = (),
    strict: bool = False,
    after: int = 0,
) -> Any:
    """Decorate a wrapper factory: what its callers get is specialised.

    Args:
        factory: a function that returns a function, or a tuple, list or dict of functions.
        knowledge, guards, strict, after: as for `partial_eval`.

    Returns:
        The factory with its result specialised; anything but Python functions comes back as it is.
    """
    if factory is None:
        return functools.partial(
            specialize, knowledge=knowledge, guards=guards, strict=strict, after=after
        )
    options = {"knowledge": knowledge, "guards": tuple(guards), "strict": strict, "after": after}

    @functools.wraps(factory)
    def specializing(*args: Any, **kwargs: Any) -> Any:
        return specialised_result(factory(*args, **kwargs), options)

    return specializing


def specialised_result(result: Any, options: dict[str, Any]) -> Any:
    """Specialise the function, or each of the functions, that a factory returned."""
    if isinstance(result, FunctionType):
        return partial_eval(result, **options)
    if type(result) in (tuple, list):
        return type(result)(specialised_result(item, options) for item in result)
    if type(result) is dict:
        return {key: specialised_result(item, options) for key, item in result.items()}
    call = None if isinstance(result, type) else static_lookup(type(result), "__call__")
    if isinstance(call, FunctionType):
        return specialised_instance(result, call, options)
    return result


def specialised_instance(instance: Any, call: FunctionType, options: dict[str, Any]) -> Any:
    """Give an instance a class of its own, whose `__call__` is specialised for it.

    The instance stays the same object; ``type(instance)`` becomes a subclass of its class.
    """
    name = call.__code__.co_varnames[0] if call.__code__.co_argcount else None
    if name is None or not hasattr(instance, "__dict__"):
        return instance
    fast = partial_eval(call, {name: instance}, **{**options, "after": 0})
    if install.record_of(fast) is None:
        return instance
    cls = type(instance)
    namespace = {
        "__call__": staticmethod(fast),
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
    }
    own = types_module.new_class(cls.__name__, (cls,), {}, lambda body: body.update(namespace))
    own.__qualname__ = cls.__qualname__
    instance.__class__ = own
    return instance


def original(f: F) -> F:
    """The generic function behind a specialised one; any other object comes back as it is."""
    record = install.record_of(f)
    return record.generic if record is not None else f  # type: ignore[return-value]


def explain(f: Any) -> str:
    """What was folded, removed, unrolled, unfolded, assumed and declined, and the residual itself.

    Args:
        f: a specialised function.

    Raises:
        TypeError: `f` is not one.
    """
    record = install.record_of(f)
    if record is None:
        raise TypeError(f"{f!r} is not a specialised function")
    return explain_record(record)


def assume_constant(*objects: Any, reason: str = "declared with assume_constant") -> None:
    """Declare that attributes and items of these objects never change from now on.

    The objects are kept alive; declare classes through `Knowledge.frozen_types` instead when there
    are many instances.
    """
    for obj in objects:
        _declared.freeze(obj, reason)


def no_unfold(f: F) -> F:
    """Decorate a function that must stay a call."""
    f.__bcspec_no_unfold__ = True  # type: ignore[attr-defined]
    return f


def invalidate(f: Any, why: str = "asked for") -> None:
    """Make a specialised function run the generic code from its next call on."""
    install.invalidate(f, why)
