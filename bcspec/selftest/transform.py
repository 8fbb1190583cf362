"""One code object, or a tree of them, through bcspec with nothing known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType

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
    # Here, so that a round trip does not load the evaluator.
    from ..evaluate import reevaluate

    fn = reevaluate(code)
    check(fn)
    result = lower(fn)
    verify(result)
    return result


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
