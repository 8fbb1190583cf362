"""Variables of comprehensions that have the name, perhaps the slot, of a variable around them."""

from __future__ import annotations

import pytest

from tests.harness import oracle, same


def restored(x, items):
    y = [x for x in items]
    return x, y


def unbound_before(items, flag):
    if flag:
        x = "bound"
    y = [x for x in items]
    try:
        return x, y
    except UnboundLocalError as error:
        return str(error), y


def in_a_loop(items):
    found = []
    for x in items:
        found.append([x for x in (x, x)])
        found.append(x)
    return found


def nested(x, items):
    return [[x for x in (x, 9)] for x in items], x


def captured(x, items):
    def read():
        return x

    y = [(lambda: x)() for x in items]
    return read(), y


def captured_inside(items):
    x = 1
    readers = [lambda: x for x in items]
    return [read() for read in readers], x


def both_captured(x, items):
    def read():
        return x

    inner = [lambda: x for x in items]
    x = x + 10
    return read(), [each() for each in inner]


def that_fails(x, items):
    try:
        y = [1 // x for x in items]
    except ZeroDivisionError:
        y = None
    return x, y


def deleted(x, items):
    del x
    y = {x: x for x in items}
    try:
        return x  # noqa: F821
    except UnboundLocalError:
        return y


def of_dictionaries(key, value, items):
    y = {key: value for key, value in enumerate(items)}
    return key, value, y, {value for value in items}


CASES = [
    (restored, ("x", (1, 2))),
    (unbound_before, ((1, 2), True)),
    (unbound_before, ((1, 2), False)),
    (in_a_loop, ((1, 2),)),
    (nested, (5, (1, 2))),
    (captured, (5, (1, 2))),
    (captured_inside, ((1, 2),)),
    (both_captured, (5, (1, 2))),
    (that_fails, ("x", (1, 0))),
    (that_fails, ("x", (1, 2))),
    (deleted, ("x", (1, 2))),
    (of_dictionaries, ("k", "v", (1, 2))),
]


@pytest.mark.parametrize(("f", "args"), CASES)
def test_unknown_items(f, args):
    same(f, lambda log: args)
    assert oracle(f)(*args) == f(*args)


@pytest.mark.parametrize(("f", "args"), [case for case in CASES if case[0] is not unbound_before])
def test_known_items(f, args):
    same(f, lambda log: args, constants={"items": (1, 2)}, residual_args=lambda log: args[:-1]) if (
        args[-1] == (1, 2)
    ) else same(f, lambda log: args)
