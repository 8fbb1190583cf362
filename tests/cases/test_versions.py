"""Shapes of source for which the versions of CPython have different instructions."""

from __future__ import annotations

import dis
import sys
import types

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


class Bare:
    """A context manager whose methods are called without it."""

    def __init__(self, log, swallow):
        Bare.log, Bare.swallow = log, swallow

    @staticmethod
    def __enter__():
        Bare.log.append("enter")
        return "entered"

    @staticmethod
    def __exit__(*exception):
        Bare.log.append(exception[0])
        return Bare.swallow


def managers_that_are_not_passed(log, n):
    for swallow in (True, False):
        with Bare(log, swallow) as entered:
            log.append(entered)
            if n == 1:
                raise ValueError(n)
            if n == 3:
                return entered
    return "end"


class Kept:
    def __init__(self, log, name):
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(f"exit {self.name} {kind} {value}")
        return self.name == "swallows"

    def __del__(self):
        self.log.append(f"del {self.name}")


def managers_in_loops(log, n):
    out = []
    for i in range(3):
        with Kept(log, "swallows"), Kept(log, f"inner {i}") as inner:
            if i == n:
                break
            if not i:
                continue
            out.append(inner.name)
            raise KeyError(i)
    return out


def half_a_manager(log, n):
    class Half:
        pass

    if n:
        Half.__enter__ = lambda self: log.append("enter")
    try:
        with Half():
            return "entered"
    except (AttributeError, TypeError) as error:
        return type(error), str(error)


def dead_with_its_frame(log, n):
    for one in [Kept(log, "a"), Kept(log, "b")]:
        log.append(one.name + n)


CLOSE = "close"


def loops_while_handling(log, n):
    def run(stack):
        try:
            while stack:
                yield from stack.pop()
        finally:
            while stack:
                action, value = stack.pop()
                if action == CLOSE:
                    log.append(value)

    stack = [("open", 1), (CLOSE, 2), ("open", 3)]
    steps = run([*stack, [n]])
    log.append(next(steps))
    try:
        steps.throw(KeyError(n))
    except KeyError as error:
        log.append(error.args)


def rebound_while_used(log, n):
    x = n
    return x + (x := 2), [x, (x := 5), x], log is not None and max(x, (x := 7), x), x


def builtins_over_generators(log, n):
    rows = [1, n, 3]
    seen = any(log.append(row) or row > 1 for row in rows)
    return seen, all(row < 3 for row in rows), tuple(row * 2 for row in rows if row != n)


def builtins_of_its_own(log, n):
    def all(rows):
        return [list(rows), log.append("all")]

    def tuple(rows):
        return "tuple"

    any = list
    return all(i for i in range(n)), tuple(i for i in range(n)), any(i for i in range(n))


def slices_of_constants(log, n):
    text = "abcdef"
    return text[1:3], text[n:], text[:n], text[::2], text[-2:], [*range(9)][1:7:2]


def keywords_of_every_kind(log, n):
    def take(*args, **kw):
        return args, kw

    args, kw = (1, n), {"k": n}
    merged = take(n, *args, **kw, **{"other": 1}, **dict(more=2))
    return take(*args), take(**kw), take(*args, k=1, **{"j": n}), take(k=3, j=n), merged


FUNCTIONS = [
    managers_that_are_not_passed,
    managers_in_loops,
    half_a_manager,
    dead_with_its_frame,
    loops_while_handling,
    rebound_while_used,
    builtins_over_generators,
    builtins_of_its_own,
    slices_of_constants,
    keywords_of_every_kind,
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


def test_keywords_that_are_merged_more_than_once():
    def f(manager, args, one, two):
        with manager:
            return take(0, *args, **one, **two)

    def take(*args, **kw):
        return args, kw

    import contextlib

    manager = contextlib.nullcontext()
    for function in (oracle(f), residual_of(f)[1]):
        assert function(manager, [1], {"a": 1}, {"b": 2}) == ((0, 1), {"a": 1, "b": 2})
        with pytest.raises(TypeError, match="multiple values for keyword argument 'a'"):
            function(manager, [1], {"a": 1}, {"a": 2})


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


def made(source, name):
    """The function of that name in a module, generic, through lift and lower, and specialised."""
    from bcspec.selftest.transform import roundtrip

    space = {}
    exec(compile(source, "<module>", "exec", dont_inherit=True), space)
    f = space[name]
    code = roundtrip(f.__code__)
    lowered = types.FunctionType(code, space, f.__name__, f.__defaults__, f.__closure__)
    return [f, lowered, oracle(f), residual_of(f)[1]]


needs_3_14 = pytest.mark.skipif(sys.version_info < (3, 14), reason="the syntax is newer")


@needs_3_14
def test_template_strings():
    source = """
def f(a, b):
    return t"{a!r:>{b}} and {b=}{a!a}{b!s:x}{a:y}" t"" t"{b}"
"""
    expected, *others = (
        (
            t.strings,
            t.values,
            t.interpolations[0].format_spec,
            [(i.expression, i.conversion, i.format_spec) for i in t.interpolations],
        )
        for t in (f("x", 7) for f in made(source, "f"))
    )
    assert others == [expected] * 3
    assert [i[1] for i in expected[-1]] == ["r", "r", "a", "s", None, None]


@needs_3_14
def test_annotations_are_evaluated_when_asked_for():
    import annotationlib

    import bcspec

    source = """
def f(a: Missing, b: int = 1) -> Missing:
    def inner(c: Missing, *, d: int = 2): return c
    return inner
"""
    for f in made(source, "f"):
        inner = f(1)
        assert inner(3) == 3
        strings = annotationlib.get_annotations(inner, format=annotationlib.Format.STRING)
        assert strings == {"c": "Missing", "d": "int"}
        with pytest.raises(NameError):
            inner.__annotations__
    (f, *_) = made(source, "f")
    whole, fixed = bcspec.partial_eval(f), bcspec.partial_eval(f, {"a": 1})
    f.__globals__["Missing"] = str
    assert whole.__annotations__ == {"a": str, "b": int, "return": str}
    assert fixed.__annotations__ == {"b": int, "return": str}
    strings = annotationlib.get_annotations(fixed, format=annotationlib.Format.STRING)
    assert strings == {"b": "int", "return": "Missing"}


@needs_3_14
def test_monitoring_finds_the_branches():
    """Where a branch is and where it leads is read off the code, in several places of it."""
    source = """
async def f(rows, n):
    async for row in rows:
        if row > n and n:
            continue
        while n:
            n -= 1
    else:
        n = None
    for i in rows:
        if i is None: break
"""
    kinds = []
    for f in made(source, "f")[:3]:
        code = f.__code__
        at = {
            i.offset: (i.baseopname.removesuffix("_BORROW"), i.positions.lineno)
            for i in dis.get_instructions(code)
        }
        found = [tuple(at[offset][0] for offset in way) for way in code.co_branches()]
        assert all("CACHE" not in names for names in found)
        kinds.append(sorted((at[way[0]], at[way[1]][0]) for way in code.co_branches()))
    assert kinds[1] == kinds[0]
    assert {kind for (kind, _), _ in kinds[0]} == {kind for (kind, _), _ in kinds[2]}
