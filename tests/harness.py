"""Running a generic function and its residual side by side."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from bcspec.evaluate import Request, evaluate, reevaluate
from bcspec.ir import Function, check
from bcspec.knowledge import Knowledge
from bcspec.lower import lower
from bcspec.verify import verify


def residual_of(f: types.FunctionType, **request: Any) -> tuple[Function, types.FunctionType]:
    """Specialise `f`; the residual IR and a function that runs it."""
    residual = evaluate(Request(f, **request))
    check(residual.fn)
    code = lower(residual.fn)
    verify(code)
    function = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, residual.cells)
    function.__kwdefaults__ = f.__kwdefaults__
    return residual.fn, function


def oracle(f: types.FunctionType) -> types.FunctionType:
    """`f` evaluated with nothing constant and nothing assumed."""
    fn = reevaluate(f.__code__)
    check(fn)
    code = lower(fn)
    verify(code)
    function = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    function.__kwdefaults__ = f.__kwdefaults__
    return function


def operations(fn: Function) -> list[str]:
    """Names of all residual operations."""
    return [op.name for block in fn.blocks for op in block.all_ops()]


class Log(list):  # type: ignore[type-arg]
    """An effect log that functions under test write to."""


class Guard:
    """Writes to the log when it is made and when it dies."""

    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name = log, name
        log.append(f"make {name}")

    def __del__(self) -> None:
        self.log.append(f"del {self.name}")


def describe_exception(error: BaseException | None) -> Any:
    """What the contract promises about an exception."""
    if error is None:
        return None
    return (
        type(error),
        error.args,
        describe_exception(error.__cause__),
        describe_exception(error.__context__),
        getattr(error, "__notes__", None),
    )


def outcome(f: Callable[..., Any], make_args: Callable[[Log], tuple[Any, ...]]) -> Any:
    """Value or exception of a call, its effects in order, deaths among them, and reference counts."""
    log = Log()
    args = make_args(log)
    value, error = None, None
    try:
        value = f(*args)
    except Exception as caught:
        error = describe_exception(caught)
        caught.__traceback__ = None
    log.append("after")
    shown = repr(value)
    counts = [sys.getrefcount(arg) for arg in args]
    del value
    log.append("end")
    return shown, error, list(log), counts


def same(
    f: types.FunctionType,
    make_args: Callable[[Log], tuple[Any, ...]] = lambda log: (),
    *,
    residual_args: Callable[[Log], tuple[Any, ...]] | None = None,
    knowledge: Knowledge | None = None,
    **request: Any,
) -> Function:
    """Check that the residual of `f` does what `f` does; gives the residual IR for further checks."""
    fn, function = residual_of(f, knowledge=knowledge or Knowledge(), **request)
    expected, found = outcome(f, make_args), outcome(function, residual_args or make_args)
    if residual_args is not None:
        # The fixed parameters are missing, and with them their reference counts.
        expected, found = expected[:-1], found[:-1]
    assert found == expected
    return fn
