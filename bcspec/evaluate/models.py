"""Builtins over known iterables, written in Python: unfolding these is how they are evaluated.

Each model does what the builtin of the same name does (CPython, ``Python/bltinmodule.c``) when it
is given an iterable whose items are known to the evaluator.  They are never called.
"""

# mypy: ignore-errors
# ruff: noqa: SIM110
from __future__ import annotations


def all_(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def any_(iterable):
    for item in iterable:
        if item:
            return True
    return False


def list_(iterable):
    result = []
    for item in iterable:
        result.append(item)
    return result


def tuple_(iterable):
    result = []
    for item in iterable:
        result.append(item)
    return (*result,)


def dict_(pairs):
    result = {}
    for key, value in pairs:
        result[key] = value
    return result


def enumerate_(iterable, start=0):
    for item in iterable:
        yield start, item
        start = start + 1


def map_(function, iterable):
    for item in iterable:
        try:
            result = function(item)
        except StopIteration:  # the loop cannot tell whose it is
            return
        yield result
        del result


def raise_(error):
    """What `throw` does with an exception: its context stays."""
    context = error.__context__
    try:
        raise error
    except BaseException:
        error.__context__ = context
        raise


def close_(generator):
    try:
        generator.throw(GeneratorExit())
    except (GeneratorExit, StopIteration):
        return
    raise RuntimeError("generator ignored GeneratorExit")


def close_with_value(generator):
    try:
        generator.throw(GeneratorExit())
    except GeneratorExit:
        return
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("generator ignored GeneratorExit")


def _answers_close():
    try:
        yield
    except GeneratorExit:
        return True


def close_model():
    """What `close` does in the running interpreter: some versions give what the generator returns."""
    generator = _answers_close()
    next(generator)
    return close_with_value if generator.close() else close_
