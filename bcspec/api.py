"""The public functions: specialise a function or what a wrapper factory returns."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

from . import install
from .assume import Listener, watch_module
from .errors import BcspecError, SpecializationError
from .evaluate import Request, evaluate
from .ir import GENERATORS
from .knowledge import EntryGuard, Knowledge
from .report import explain_record
from .results import is_specialised_instance, specialised_result

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
        TypeError: `constants` or `types` name no parameter of `f`, or `f` cannot be called.
        ValueError: `after` is negative, or given together with `constants` or `strict`.
    """
    if after < 0 or (after and (constants or strict)):
        raise ValueError("after is a number of calls, not to be combined with constants or strict")
    if constants is not None and not isinstance(constants, Mapping):
        raise TypeError(f"constants maps names of parameters to values; got {constants!r}")
    if disabled():
        return with_fixed(f, constants or {})  # type: ignore[no-any-return]
    options = Options(types, knowledge, tuple(guards), strict)
    if after:
        return settled(f, options, after)  # type: ignore[no-any-return]
    return specialised(f, constants, options)  # type: ignore[no-any-return]


#: How often a function is specialised again after an assumption has broken.
AGAIN = 3


@dataclass(frozen=True)
class Options:
    """How to specialise; see `partial_eval`.

    Attributes:
        identical: parameters that are always one object, checked at each call.
    """

    types: Mapping[str, type] | None = None
    knowledge: Knowledge | None = None
    guards: tuple[EntryGuard, ...] = ()
    strict: bool = False
    identical: Mapping[str, Any] | None = None


def specialised(
    f: Any, constants: Mapping[str, Any] | None, options: Options, again: int = AGAIN
) -> Any:
    """`partial_eval` at once; `again` is how often it may be repeated when an assumption breaks."""
    fixed = dict(constants or {})
    function = as_function(f, fixed)
    if function is None:
        return refuse(f, fixed, "it is not a Python function or method", options.strict)
    check_names("constants", fixed, function)
    check_names("types", options.types or {}, function)
    table = _declared.merged(options.knowledge or Knowledge())
    table.entry_guards = [*table.entry_guards, *options.guards]
    request = Request(
        function,
        constants=fixed,
        types=dict(options.types or {}),
        knowledge=table,
        identical=dict(options.identical or {}),
    )
    try:
        residual = evaluate(request)
        fast = install.build(request, residual)
    except BcspecError as error:
        return refuse(f, fixed, str(error), options.strict)
    except Exception as error:  # a fault of bcspec must not cost users their function
        log.debug("details", exc_info=True)
        return refuse(f, fixed, f"internal fault, {type(error).__name__}: {error}", options.strict)
    record = install.record_of(fast)
    if record is not None and not fixed:
        record.again = functools.partial(once_more, function, options, again - 1)
    watch(fast)
    return fast


def check_names(what: str, given: Mapping[str, Any], function: FunctionType) -> None:
    """Raise TypeError unless all names are those of parameters, and types are types."""
    unknown = set(given) - set(function.__code__.co_varnames[: parameters(function)])
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise TypeError(f"{what}: {function.__qualname__} has no parameter {names}")
    wrong = [
        name for name, value in given.items() if what == "types" and not isinstance(value, type)
    ]
    if wrong:
        raise TypeError(f"types: {wrong[0]}={given[wrong[0]]!r} is not a type")


def once_more(function: FunctionType, options: Options, again: int) -> Any:
    """Specialise a function whose assumptions have broken, unless that has happened too often."""
    if again < 0:
        log.warning("%s stays generic: its assumptions broke too often", function.__qualname__)
        return function
    return specialised(function, None, replace(options, strict=False), again)


def settled(f: Any, options: Options, after: int) -> Any:
    """A function or method that is specialised after a number of calls."""
    if isinstance(f, MethodType) and isinstance(f.__func__, FunctionType):
        first = f.__func__.__code__.co_varnames[:1] if f.__func__.__code__.co_argcount else ()
        identical = dict.fromkeys(first, f.__self__)
        later = settled(f.__func__, replace(options, identical=identical), after)
        return f if later is f.__func__ else MethodType(later, f.__self__)
    if not isinstance(f, FunctionType):
        return refuse(f, {}, "it is not a Python function or method", strict=False)
    if f.__code__.co_flags & GENERATORS:
        why = "generators and coroutines are specialised at once (after=0) or not at all"
        return refuse(f, {}, why, strict=False)
    check_names("types", options.types or {}, f)
    later = install.Later(f, functools.partial(specialised, f, None, options), after)
    try:
        stand_in, later.cell = install.forwarder(f, later)
    except BcspecError as error:
        return refuse(f, {}, str(error), strict=False)
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
    if not callable(f):
        raise TypeError(f"a function is expected, not {f!r}")
    if strict:
        raise SpecializationError(message)
    log.warning("%s", message)
    return with_fixed(f, fixed)


def with_fixed(f: Any, fixed: Mapping[str, Any]) -> Any:
    """The generic function with fixed parameters, called as the specialised one would be."""
    if not fixed or (isinstance(f, MethodType) and list(fixed.values()) == [f.__self__]):
        return f
    generic = f.__func__ if isinstance(f, MethodType) else f
    if not isinstance(generic, FunctionType):
        return functools.partial(f, **fixed)
    signature = inspect.signature(generic)
    rest = [p for name, p in signature.parameters.items() if name not in fixed]
    shorter = signature.replace(parameters=rest)

    @functools.wraps(generic)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = {**shorter.bind(*args, **kwargs).arguments, **fixed}
        bound = inspect.BoundArguments(signature, values)  # type: ignore[arg-type]
        bound.apply_defaults()
        return generic(*bound.args, **bound.kwargs)

    call.__signature__ = shorter  # type: ignore[attr-defined]
    return call


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
        if assumption.is_watched:
            watch_module(assumption.subject, assumption.name, assumption.value, listener)


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
        factory: a function that returns a function, an instance of a class with ``__call__``, or a tuple,
            list or dict of these.
        knowledge, guards, strict, after: as for `partial_eval`.

    Returns:
        The factory with its result specialised; anything else in its result comes back as it is.

    Raises:
        TypeError: `factory` cannot be called.
    """
    if factory is None:
        return functools.partial(
            specialize, knowledge=knowledge, guards=guards, strict=strict, after=after
        )
    if not callable(factory):
        raise TypeError(f"specialize is for functions that return functions, not {factory!r}")
    options = Options(None, knowledge, tuple(guards), strict)

    def build(function: FunctionType, identical: Mapping[str, Any]) -> Any:
        wanted = replace(options, identical=identical)
        return settled(function, wanted, after) if after else specialised(function, None, wanted)

    @functools.wraps(factory)
    def specializing(*args: Any, **kwargs: Any) -> Any:
        result = factory(*args, **kwargs)
        return result if disabled() else specialised_result(result, build)

    return specializing


def original(f: F) -> F:
    """The generic function behind a specialised one; any other object comes back as it is.

    For a method, or an instance whose ``__call__`` is specialised, it is the generic method.
    """
    function, instance = behind(f)
    generic = install.generic_of(function)
    if generic is function:
        return f
    return generic if function is f else MethodType(generic, instance)  # type: ignore[return-value]


def behind(f: Any) -> tuple[Any, Any]:
    """The function that runs when `f` is called, and the instance that it gets first, if any."""
    if isinstance(f, MethodType):
        return f.__func__, f.__self__
    if is_specialised_instance(f):
        return vars(type(f))["__call__"], f
    return f, None


def explain(f: Any) -> str:
    """What was folded, removed, unrolled, unfolded, assumed and declined, and the residual itself.

    Args:
        f: a specialised function.

    Raises:
        TypeError: `f` is not one.
    """
    record = install.record_of(behind(f)[0])
    if record is None:
        raise TypeError(f"{f!r} is not a specialised function{not_yet(f)}")
    return explain_record(record)


def assume_constant(*objects: Any, reason: str = "declared with assume_constant") -> None:
    """Declare that attributes and items of these objects never change from now on.

    The objects are kept alive; declare classes through `Knowledge.frozen_types` instead when there
    are many instances.
    """
    for obj in objects:
        _declared.freeze(obj, reason)


def not_yet(f: Any) -> str:
    """What to add where a function waits for the call at which it is specialised."""
    waits = install.generic_of(behind(f)[0]) is not behind(f)[0]
    return ": it waits for the calls that after= asks for" if waits else ""


def no_unfold(f: F) -> F:
    """Decorate a function that must stay a call.

    Raises:
        TypeError: `f` takes no attributes, as a builtin; name it in `Knowledge.no_unfold` instead.
    """
    target: Any = f.__func__ if isinstance(f, MethodType) else f
    try:
        target.__bcspec_no_unfold__ = True
    except (AttributeError, TypeError):
        raise TypeError(
            f"{f!r} takes no attributes: name it in Knowledge(no_unfold={{...}})"
        ) from None
    return f


def invalidate(f: Any, why: str = "asked for") -> None:
    """Make a specialised function run the generic code from its next call on."""
    install.invalidate(behind(f)[0], why)
