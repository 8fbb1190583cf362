"""Argument binding of unfolded calls, against the interpreter's own."""

from __future__ import annotations

import functools
import itertools

import pytest

from bcspec.evaluate import Limits, Request, evaluate
from tests.harness import operations, residual_of, same


def plain(a, b=2):
    return a, b


def star(a, *rest, key=5, **more):
    return a, rest, key, more


def positional(a, b=1, /, c=2, *, d, e=4):
    return a, b, c, d, e


def same_names(a, /, **more):
    return a, more


class Callable:
    def __call__(self, a, b=3):
        return type(self).__name__, a, b

    def method(self, a, *, b=4):
        return type(self).__name__, a, b

    @classmethod
    def of(cls, a):
        return cls.__name__, a

    @staticmethod
    def free(a, b=7):
        return a, b


instance = Callable()
bound = instance.method
partial = functools.partial(star, 1, key=8)
nested = functools.partial(functools.partial(star, 1, key=8), 2, other=3)

CALLS = [
    "plain(x)",
    "plain(x, y)",
    "plain(b=x, a=y)",
    "plain(*(x, y))",
    "plain(*[x], **{'b': y})",
    "plain(**{'a': x})",
    "star(x)",
    "star(x, y, 3, key=4)",
    "star(*(x, y), *(1, 2), other=3, **{'key': 6})",
    "star(a=x, b=y)",
    "positional(x, d=y)",
    "positional(x, y, 3, d=4, e=5)",
    "positional(x, c=y, d=6)",
    "same_names(x, a=y)",
    "instance(x)",
    "instance.method(x, b=y)",
    "bound(x)",
    "Callable.of(x)",
    "Callable.free(x)",
    "instance.of(x)",
    "instance.free(x, y)",
    "partial(x)",
    "partial(x, key=y, z=1)",
    "nested(x)",
    "(lambda p, q=y: (p, q))(x)",
    "(lambda *p: p)(x, y)",
    "(lambda **p: p)(x=x, y=y)",
]

WRONG = [
    "plain()",
    "plain(x, y, 3)",
    "plain(x, a=y)",
    "plain(x, c=y)",
    "positional(x)",
    "positional(a=x, d=y)",
    "star()",
    "same_names(a=x)",
    "instance()",
    "instance.method(x, y)",
    "partial(a=x)",
]


KNOWN = {"instance": instance, "bound": bound, "partial": partial, "nested": nested}


def function(call):
    scope = {}
    exec(f"def f(x, y, {', '.join(KNOWN)}):\n    return {call}", globals(), scope)
    return scope["f"]


@pytest.mark.parametrize("call", CALLS)
def test_arguments_are_bound(call):
    fn = same(
        function(call),
        lambda log: ("one", "two", *KNOWN.values()),
        residual_args=lambda log: ("one", "two"),
        constants=KNOWN,
    )
    assert "call" not in operations(fn) and "call_ex" not in operations(fn)


@pytest.mark.parametrize("call", WRONG)
def test_a_call_that_does_not_fit_stays_and_fails(call):
    f = function(call)
    fn, fast = residual_of(f, constants=KNOWN)
    assert "call" in operations(fn) or "call_ex" in operations(fn)
    messages = []
    for each in (lambda *args: f(*args, *KNOWN.values()), fast):
        with pytest.raises(TypeError) as caught:
            each("one", "two")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_defaults_are_those_of_the_definition():
    def f(x):
        made = [lambda p=n: p for n in (1, 2)]
        return [each() for each in made] + [made[0](x)]

    same(f, lambda log: (5,))


def test_arguments_are_evaluated_in_order():
    def f(log):
        def note(value):
            log.append(value)
            return value

        return star(note(1), note(2), *(note(3),), key=note(4), other=note(5))

    same(f, lambda log: (log,))


@pytest.mark.parametrize("depth", [3, 30])
def test_recursion_is_bounded(depth):
    fn = same(countdown, lambda log: (depth,))
    assert operations(fn).count("call") <= 2


def countdown(n):
    return 0 if n < 1 else 1 + countdown(n - 1)


def test_a_long_function_stays_a_call():
    residual = evaluate(Request(function("plain(x)"), limits=Limits(unfold_size=1)))
    assert any("operations (limit 1)" in n.text for n in residual.notes if n.kind == "declined")


def test_every_order_of_keywords():
    for names in itertools.permutations("abc"):
        call = ", ".join(f"{name}={name!r}" for name in names)
        scope = {}
        exec(f"def g(a, *, b, c): return a, b, c\ndef f(): return g({call})", scope)
        same(scope["f"])
