"""The residual function object: where its constants are, what it keeps alive, how it is taken back."""

import gc
import inspect
import types
import weakref

import pytest

import bcspec
from bcspec import install
from bcspec.errors import VerificationError
from bcspec.evaluate import Request, evaluate


class Thing:
    def __init__(self, function=None):
        self.function = function

    def run(self, x):
        return self, x


def atoms(value):
    """All that a code object holds, down to single values."""
    if isinstance(value, (tuple, frozenset)):
        return [each for item in value for each in atoms(item)]
    if isinstance(value, types.CodeType):
        return atoms(value.co_consts)
    return [value]


def make(thing, number, names):
    def f(x):
        return thing.run(x), number, names, [n for n in names], thing

    return f


def test_constants_that_can_lead_back_are_in_cells():
    thing = Thing()
    fast = bcspec.partial_eval(make(thing, 5, ("a", thing)), strict=True)
    assert fast(1)[0] == (thing, 1)
    atomic = (int, float, complex, str, bytes, bool, type(None), type(...))
    assert all(type(each) in atomic for each in atoms(fast.__code__))
    contents = [cell.cell_contents for cell in fast.__closure__]
    assert any(content is thing for content in contents)


def test_a_cycle_through_a_constant_is_freed():
    thing = Thing()
    thing.function = bcspec.partial_eval(make(thing, 1, ()), strict=True)
    references = [weakref.ref(thing), weakref.ref(thing.function)]
    del thing
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_residual_function_dies_at_once():
    fast = bcspec.partial_eval(make(Thing(), 1, ()), strict=True)
    reference = weakref.ref(fast)
    gc.collect()
    gc.disable()
    try:
        del fast
        assert reference() is None
    finally:
        gc.enable()


def test_the_generic_function_lives_as_long_as_the_residual():
    generic = make(Thing(), 1, ())
    fast = bcspec.partial_eval(generic, strict=True)
    reference = weakref.ref(generic)
    del generic
    gc.collect()
    assert reference() is bcspec.original(fast)
    bcspec.invalidate(fast)
    assert fast(3)[1] == 1


@pytest.mark.parametrize("step", ["lower", "verify", "trampoline_code"])
def test_nothing_is_installed_that_is_not_sound(step, monkeypatch):
    def fail(*args):
        raise VerificationError("not sound")

    monkeypatch.setattr(install, step, fail)
    generic = make(Thing(), 1, ())
    assert bcspec.partial_eval(generic) is generic
    with pytest.raises(bcspec.SpecializationError, match="not sound"):
        bcspec.partial_eval(generic, strict=True)


def test_everything_that_is_installed_was_verified(monkeypatch):
    seen = []
    verify = install.verify
    monkeypatch.setattr(install, "verify", lambda code: seen.append(code) or verify(code))
    fast = bcspec.partial_eval(make(Thing(), 1, ()), strict=True)
    assert fast.__code__ in seen
    bcspec.invalidate(fast)
    assert fast.__code__ in seen


def test_invalidating_twice_is_invalidating_once():
    fast = bcspec.partial_eval(make(Thing(), 1, ()), strict=True)
    bcspec.invalidate(fast)
    code = fast.__code__
    bcspec.invalidate(fast)
    assert fast.__code__ is code and fast(2)[1] == 1


def test_a_function_that_is_invalidated_while_it_runs():
    def make(stop):
        def countdown(n):
            if n == stop:
                bcspec.invalidate(fast)
            return [n] if n == 0 else [n, *fast(n - 1)]

        fast = bcspec.partial_eval(countdown, strict=True)
        return fast

    assert make(3)(6) == [6, 5, 4, 3, 2, 1, 0]


def test_a_generator_that_is_invalidated_while_it_is_suspended():
    def make(n):
        def numbers(k):
            yield n + k
            yield n * k

        return numbers

    fast = bcspec.partial_eval(make(3), strict=True)
    running = fast(2)
    assert next(running) == 5
    bcspec.invalidate(fast)
    assert list(running) == [6]
    assert list(fast(2)) == [5, 6] and inspect.isgeneratorfunction(fast)
    assert fast.__code__ is not bcspec.original(fast).__code__


@pytest.mark.parametrize("fixed", [{}, {"b": 2}, {"a": 1, "d": 4}])
def test_a_trampoline_passes_everything_on(fixed):
    def f(a, b=0, /, *args, c=3, d, **kwargs):
        return a, b, args, c, d, kwargs

    request = Request(f, constants=fixed)
    fast = install.build(request, evaluate(request))
    given = {"a": 7, "b": 8}
    positional = [value for name, value in given.items() if name not in fixed]
    named = {n: v for n, v in {"d": 5, "c": 6, "e": 7}.items() if n not in fixed}
    before = fast(*positional, 9, 10, **named)
    install.invalidate(fast, "for a test")
    assert fast(*positional, 9, 10, **named) == before
    assert before == f(
        *{**given, **{n: fixed[n] for n in "ab" if n in fixed}}.values(),
        9,
        10,
        **{**named, **{n: fixed[n] for n in "cd" if n in fixed}},
    )


def test_records_are_of_residual_functions_only():
    generic = make(Thing(), 1, ())
    assert install.record_of(generic) is None
    assert install.record_of(5) is None
    fast = bcspec.partial_eval(generic, strict=True)
    record = install.record_of(fast)
    assert record.generic is generic and record.valid
    assert install.generic_of(fast) is generic and install.generic_of(generic) is generic
