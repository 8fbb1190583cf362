"""Group B of the collected reports: what rewriting bytecode has broken elsewhere.

The number in each name's docstring is the public issue.  Every case runs generic, in oracle mode
(nothing constant) and, where something can be constant, specialised.
"""

from __future__ import annotations

import dis
import sys
import traceback

import pytest

from bcspec import SpecializationError
from tests.harness import Guard, operations, oracle, outcome, residual_of, same
from tests.verify_samples import drive


def test_except_as_unbinds_its_name():
    """bytecode 118."""

    def f(x):
        try:
            raise ValueError(x)
        except ValueError as e:
            seen = e.args
        try:
            e  # noqa: B018, F821
        except UnboundLocalError as error:
            return seen, str(error)

    assert oracle(f)(3) == f(3)
    assert residual_of(f)[1](3) == f(3)


class _Manager:
    def __init__(self, log, name):
        self.log, self.name = log, name

    async def __aenter__(self):
        self.log.append(f"enter {self.name}")

    async def __aexit__(self, *exc):
        self.log.append(f"exit {self.name} {exc[0]}")

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, *exc):
        self.log.append(f"exit {self.name} {exc[0]}")


class _Numbers:
    def __aiter__(self):
        self.n = 0
        return self

    async def __anext__(self):
        self.n += 1
        if self.n > 3:
            raise StopAsyncIteration
        return self.n


def test_async_with_around_async_for():
    """bytecode 122."""

    async def f(log):
        async with _Manager(log, "a"):
            async for n in _Numbers():
                log.append(n)
                if n == 2:
                    raise KeyError(n)

    def run(function):
        def call(log):
            return drive(function(log))

        return outcome(call, lambda log: (log,))

    assert run(oracle(f)) == run(f)


def test_three_nested_with_raising_inside():
    """pytorch 99934."""

    def f(log):
        with _Manager(log, "a"), _Manager(log, "b"), _Manager(log, "c"):
            raise KeyError("x")

    same(f, lambda log: (log,))
    assert outcome(oracle(f), lambda log: (log,)) == outcome(f, lambda log: (log,))


def test_argument_that_is_a_cell():
    """bytecode 146."""

    def f(x):
        def bump():
            nonlocal x
            x += 1

        bump()
        bump()
        return x

    assert oracle(f)(5) == 7
    fn, fast = residual_of(f)
    assert fast(5) == 7
    assert "make_function" not in operations(fn)


def test_finally_after_operations_are_removed():
    """cpython 91341."""

    def f(log, verbose):
        for i in range(3):
            try:
                if verbose:
                    log.append("verbose")
                if i == 1:
                    continue
                log.append(i)
            finally:
                log.append("finally")
        return "done"

    same(
        f, lambda log: (log, False), residual_args=lambda log: (log,), constants={"verbose": False}
    )


def test_frame_that_looks_at_itself():
    """ddtrace 7044."""

    def f(a):
        b = a + 1

        def inner():
            return b

        return sorted(sys._getframe().f_locals), inner()

    assert oracle(f)(1) == f(1)
    with pytest.raises(SpecializationError, match="looks at frames"):
        residual_of(f)


def test_generator_with_send_throw_and_close():
    """ddtrace 7022."""

    def f(log):
        try:
            got = yield 1
            log.append(got)
            try:
                yield 2
            except KeyError as e:
                log.append(e.args)
            yield 3
        finally:
            log.append("finally")

    def drive(function):
        def call(log):
            g = function(log)
            values = [next(g), g.send("sent"), g.throw(KeyError("k"))]
            g.close()
            return values

        return outcome(call, lambda log: (log,))

    assert drive(oracle(f)) == drive(f)
    assert drive(residual_of(f)[1]) == drive(f)


class _Base:
    def name(self):
        return "base"

    @classmethod
    def make(cls):
        return cls.__name__


class _Derived(_Base):
    def name(self):
        return "derived " + super().name()

    def explicit(self):
        return super(_Derived, self).name()

    @classmethod
    def make(cls):
        return "made " + super().make()

    def bare(self):
        return __class__.__name__  # noqa: F821


@pytest.mark.parametrize("method", ["name", "explicit", "bare"])
def test_super(method):
    """pytorch 123686."""
    f = vars(_Derived)[method]
    instance = _Derived()
    assert oracle(f)(instance) == f(instance)
    fn, fast = residual_of(f, constants={"self": instance})
    assert fast() == f(instance)
    fn, fast = residual_of(f, types={"self": _Derived})
    assert fast(instance) == f(instance)


def test_super_in_a_classmethod():
    """pytorch 123686."""
    f = vars(_Derived)["make"].__func__
    assert oracle(f)(_Derived) == "made _Derived"
    assert residual_of(f, constants={"cls": _Derived})[1]() == "made _Derived"


def test_comprehension_that_shadows_and_one_that_raises():
    """numba 10101."""

    def f(xs, x):
        before = x
        squares = [x * x for x in xs]
        try:
            [1 // x for x in xs]
        except ZeroDivisionError:
            return squares, x, before

    assert oracle(f)([1, 0], 7) == f([1, 0], 7)
    assert residual_of(f)[1]([1, 0], 7) == f([1, 0], 7)


def test_argument_with_an_effect_is_evaluated_once():
    """pytest 14445."""

    def twice(x):
        return x, x

    def make(log, call):
        def f():
            return call(log.append("effect"))

        return f

    log = []
    fn, fast = residual_of(make(log, twice))
    assert fast() == (None, None)
    assert log == ["effect"]
    assert operations(fn).count("call") == 1


def test_free_variables_in_an_unnatural_order():
    """pytorch 126630."""

    def make(z, a, m):
        def f():
            return a, m, z

        return f

    f = make(1, 2, 3)
    assert oracle(f)() == (2, 3, 1)
    assert residual_of(f)[1]() == (2, 3, 1)


def test_construction_and_destruction_keep_their_order():
    """pytorch 182318."""

    def hold(log, name):
        guard = Guard(log, name)
        log.append("inside")
        return len(guard.name)

    def f(log):
        first = Guard(log, "first")
        log.append("between")
        hold(log, "callee")
        log.append("after the call")
        del first
        second = Guard(log, "second")  # noqa: F841
        log.append("last")

    same(f, lambda log: (log,))
    assert outcome(oracle(f), lambda log: (log,)) == outcome(f, lambda log: (log,))


def test_while_with_continue_break_and_else():
    """depyf 12."""

    def f(n, stop):
        seen = []
        while n:
            n -= 1
            if n == 3:
                continue
            if n == stop:
                break
            seen.append(n)
        else:
            seen.append("else")
        return seen

    for n, stop in [(6, 1), (6, 9), (0, 0)]:
        assert oracle(f)(n, stop) == f(n, stop)
        assert residual_of(f, constants={"n": n})[1](stop) == f(n, stop)
        assert residual_of(f, constants={"n": n, "stop": stop})[1]() == f(n, stop)


def test_positions_of_headers_over_several_lines():
    """coveragepy 2070."""

    def f(xs):
        total = 0
        for i in xs:
            total += int(
                str(i),
            )
        return total

    from bcspec.lift import lift
    from bcspec.lower import lower

    code = lower(lift(f.__code__))
    assert set(code.co_positions()) == set(f.__code__.co_positions())
    assert {line for _, line in dis.findlinestarts(code)} == {
        line for _, line in dis.findlinestarts(f.__code__)
    }
    assert all(line is not None for *_, line in code.co_lines())


def test_traceback_of_code_that_was_not_changed():
    """coveragepy 2070."""

    def f(x):
        return [
            1,
            1 // x,
        ]

    def lines(function):
        try:
            function(0)
        except ZeroDivisionError as error:
            return [(e.lineno, e.colno) for e in traceback.extract_tb(error.__traceback__)[1:]]

    assert lines(oracle(f)) == lines(f)
