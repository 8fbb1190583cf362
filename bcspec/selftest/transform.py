"""One code object, or a tree of them, through bcspec with nothing known."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from types import CodeType

from ..errors import BcspecError
from ..evaluate import reevaluate
from ..ir import check
from ..lift import lift
from ..lower import lower
from ..verify import verify

Transform = Callable[[CodeType], CodeType]


def roundtrip(code: CodeType) -> CodeType:
    """Lift, lower and verify.

    Raises:
        BcspecError: the stage that refuses.
        IRCheckError: lifting made IR that breaks a rule.
    """
    fn = lift(code)
    check(fn)
    result = lower(fn)
    verify(result)
    return result


def transform(code: CodeType) -> CodeType:
    """Lift, evaluate with no constants, lower and verify.

    Raises:
        BcspecError: the stage that refuses.
        IRCheckError: a stage made IR that breaks a rule.
    """
    fn = reevaluate(code)
    check(fn)
    result = lower(fn)
    verify(result)
    return result


def describe(error: Exception) -> str:
    """An error as one line; for a fault of bcspec itself, with the place that it comes from.

    Args:
        error: what a transform raised.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, BcspecError) or error.__traceback__ is None:
        return text
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return f"{text} [{os.path.basename(frame.f_code.co_filename)}, {frame.f_code.co_name}]"


def identity(code: CodeType) -> CodeType:
    """Nothing: shows what a selftest's own machinery changes."""
    return code


def walk(code: CodeType) -> Iterator[CodeType]:
    """`code` and every code object nested in it, outermost first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from walk(constant)


def transform_tree(
    code: CodeType,
    transform: Transform,
    failed: Callable[[CodeType, Exception], None],
) -> CodeType:
    """Put `code` and everything nested in it through `transform`, innermost first.

    Args:
        code: the outermost code object.
        transform: applied to each one.
        failed: told of each code object that `transform` raised for; that one stays as it was.

    Returns:
        The new outermost code object.
    """
    constants = tuple(
        transform_tree(constant, transform, failed) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    if any(new is not old for new, old in zip(constants, code.co_consts, strict=True)):
        code = code.replace(co_consts=constants)
    try:
        return transform(code)
    except Exception as error:
        failed(code, error)
        return code
