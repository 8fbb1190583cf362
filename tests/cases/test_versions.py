"""Shapes of source for which the versions of CPython have different instructions."""

from __future__ import annotations

import sys

import pytest

from tests.harness import operations, oracle, outcome, residual_of, same


def hidden_variable(log, n):
    x = n
    items = [x * i for x in range(2) for i in (1, n)]
    return x, items


def hidden_and_unbound(log, n):
    if n:
        x = n
    items = [x for x in range(n)]
    try:
        return items, x
    except UnboundLocalError as error:
        return items, error.name


def hidden_when_it_raises(log, n):
    x = "outer"
    try:
        [1 // x for x in (1, n)]
    except ZeroDivisionError:
        return x
    return [x]


def captured_by_a_lambda(log, n):
    x = n
    late = [lambda: x for x in range(3)]
    return x, [f() for f in late]


def cell_in_the_way(log, n):
    x = n

    def outer():
        return x

    plain = [x + 1 for x in range(3)]
    return outer(), plain, [[x for x in range(k)] for k in plain], outer()


def nested_cells(log, n):
    inner = [[lambda: (x, y) for x in range(2)] for y in range(n)]
    return [[f() for f in row] for row in inner]


def any_over_captured(log, n):
    rows = [(1, n), (2, 3)]
    return [all(a <= b for b in row) for a, row in zip((n, 9), rows)]


def truths(log, n):
    class Odd:
        def __bool__(self):
            log.append("asked")
            return n > 1

        def __eq__(self, other):
            return self

        def __repr__(self):
            return "odd"

        __hash__ = None

    odd = Odd()
    out = [not odd, odd and n, odd or n, bool(odd), 1 if odd == n else 2, not (odd == n)]
    while not odd:
        break
    else:
        out.append("else")
    return out[:4] if out[0] else len(out)


def conversions(log, n):
    class Loud:
        def __repr__(self):
            log.append("repr")
            return "loud"

        def __format__(self, spec):
            log.append(spec)
            return f"<{spec}>"

    def width():
        log.append("width")
        return n

    return f"{Loud()!r:>{width()}}{Loud()}{Loud():x}{Loud()!s}"


def callables(log, n):
    def make(*args, **kw):
        return lambda *a, **k: (args, kw, a, k)

    pick = [make, None][0]
    args, options = [n], {"o": n}
    return (
        make(1)(2),
        pick(k=1)(j=2),
        (make if n else pick)(n if n > 1 else -n, k=[i for i in range(n)])(*args, **options),
        make(*args, **options, p=1)(*args),
        make(n)(*args, 2, q=n, **options),
    )


def callees_that_raise(log, n):
    """The call is the first in its region that can raise."""

    def fail(*args, **options):
        raise ValueError(*args)

    out = []
    args = (n,)
    for callback in [fail, fail]:
        try:
            if callback(*args):
                out.append("returned")
        except ValueError as error:
            out.append(error.args)
        try:
            callback(n)
        except ValueError as error:
            out.append(error.args)
    return out


def keywords_merged_under_a_handler(log, n):
    for function, args, options in [
        (max, (1, n), {}),
        (max, (), {"default": n}),
        (max, (1,), {"x": 1}),
    ]:
        try:
            log.append(function(*args, **options))
        except TypeError as error:
            log.append(type(error))


FUNCTIONS = [
    callees_that_raise,
    keywords_merged_under_a_handler,
    hidden_variable,
    hidden_and_unbound,
    hidden_when_it_raises,
    captured_by_a_lambda,
    cell_in_the_way,
    nested_cells,
    any_over_captured,
    truths,
    conversions,
    callables,
]


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_the_same(f, n):
    expected = outcome(f, lambda log: (log, n))[:3]
    for function in (oracle(f), residual_of(f)[1]):
        assert outcome(function, lambda log: (log, n))[:3] == expected
    function = residual_of(f, constants={"n": n})[1]
    assert outcome(function, lambda log: (log,))[:3] == expected


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_slice_that_is_called(n):
    def f(rows, log):
        return rows[n:](log), rows[:n](log, k=1)

    class Rows:
        def __getitem__(self, key):
            return lambda *args, **kw: (key, len(args), kw)

    assert oracle(f)(Rows(), []) == f(Rows(), [])
    assert residual_of(f)[1](Rows(), []) == f(Rows(), [])


def test_generator_turns_stop_iteration_into_runtime_error():
    def f():
        yield 1
        raise StopIteration("early")

    for function in (oracle(f), residual_of(f)[1]):
        generator = function()
        assert next(generator) == 1
        with pytest.raises(RuntimeError, match="generator raised StopIteration") as caught:
            next(generator)
        assert caught.value.__cause__.args == ("early",)


def test_closing_runs_only_the_handlers_around_the_yield():
    log = []

    def f():
        yield 1
        try:
            yield 2
        finally:
            log.append("closed")

    for function in (f, oracle(f), residual_of(f)[1]):
        for steps in (1, 2):
            generator = function()
            for _ in range(steps):
                next(generator)
            generator.close()
    assert log == ["closed"] * 3


def test_exception_thrown_through_yield_from():
    def inner():
        try:
            yield 1
        except KeyError as error:
            return error.args

    def f():
        got = yield from inner()
        yield got

    for function in (oracle(f), residual_of(f)[1], oracle(oracle(f))):
        generator = function()
        assert next(generator) == 1
        assert generator.throw(KeyError("k")) == ("k",)
        assert generator.gi_yieldfrom is None


def test_comprehension_over_a_constant_has_no_loop():
    def f(a):
        x = a
        return [x * a for x in (1, 2, 3)], x

    fn = same(f, lambda log: (5,))
    assert "for_iter" not in operations(fn)


def test_locals_of_a_module_are_not_those_of_its_comprehensions():
    from bcspec.selftest.transform import transform

    source = """
import sys
x = "module"
def names():
    return sorted(name for name in sys._getframe(1).f_locals if name[0] != "_")
y = [x for x in (1, 2) if x]
z = names()
"""
    code = compile(source, "<module>", "exec")
    plain, made = {}, {}
    exec(code, plain)
    exec(transform(code), made)
    assert made["x"] == plain["x"] == "module"
    assert made["z"] == plain["z"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is newer")
def test_type_parameters():
    from bcspec.selftest.transform import transform, transform_tree

    source = """
type Pair[T] = tuple[T, T]
def first[T: int, *Ts, **P](x: T, y: T = 3) -> T:
    return x
class Box[T](list[T]):
    kind = T
    names = [T for T in ("a", "b")]
"""
    refused = []
    code = compile(source, "<module>", "exec", dont_inherit=True)
    made = transform_tree(code, transform, lambda code, error: refused.append((code, error)))
    assert refused == []
    space = {}
    exec(made, space)
    assert space["Pair"].__value__ == tuple[space["Pair"].__type_params__ * 2]  # noqa: F821
    assert [p.__name__ for p in space["first"].__type_params__] == ["T", "Ts", "P"]
    assert space["first"].__type_params__[0].__bound__ is int
    assert space["first"](1) == 1
    assert space["first"].__annotations__["x"] is space["first"].__type_params__[0]
    assert space["Box"].names == ["a", "b"]
    assert space["Box"].kind is space["Box"].__type_params__[0]
