"""States of the thread that a check establishes, and tuples of a declared length."""

import operator

import pytest

from bcspec.knowledge import Ambient, Knowledge
from tests.harness import residual_of

calls = []


def make_thread():
    """What reads and sets a state, something that leaves it alone and something that may not; every
    call is noted."""
    state = {"mode": True}

    def read():
        calls.append("read")
        return state["mode"]

    def set_(value):
        calls.append("set")
        state["mode"] = value

    def harmless(*args):
        calls.append("harmless")

    def other(*args):
        calls.append("other")
        state["mode"] = False

    return state, read, set_, harmless, other


check_answer = operator.itemgetter("answer")


def names_called(make, answer=True):
    """Names of what the residual function calls; generic and residual agree on result and state."""
    found = []
    for fast in (False, True):
        state, read, set_, harmless, other = make_thread()
        f = make(check_answer, read, set_, harmless, other)
        if fast:
            knowledge = Knowledge(
                ambient=[Ambient(read, set_, True)],
                undisturbing={harmless: "it does nothing"},
                result_types={harmless: type(None)},
                no_unfold=dict.fromkeys((read, set_, harmless, other), "counted"),
            )
            _, f = residual_of(f, check=check_answer, knowledge=knowledge)
        calls.clear()
        found.append((f({"answer": answer}), dict(state), list(calls)))
    (expected, before, _), (result, after, made) = found
    assert (expected, before) == (result, after)
    return made


def plain(check, read, set_, harmless, other):
    def f(x):
        if check(x):
            mode = read()
            set_(True)
            harmless()
            set_(mode)
            return mode
        return None

    return f


def set_to_another(check, read, set_, harmless, other):
    def f(x):
        if check(x):
            mode = read()
            set_(False)
            harmless()
            set_(mode)
            return read()
        return None

    return f


def disturbed(check, read, set_, harmless, other):
    def f(x):
        if check(x):
            mode = read()
            other()
            set_(mode)
            return read()
        return None

    return f


def unasked(check, read, set_, harmless, other):
    def f(x):
        set_(True)
        return read(), check(x), read()

    return f


def denied(check, read, set_, harmless, other):
    def f(x):
        if not check(x):
            return read()
        return None

    return f


def something_dies(check, read, set_, harmless, other):
    class Loud:
        def __del__(self):
            set_(False)

    def f(x):
        loud = [Loud()]
        if check(x):
            loud.clear()
            return read()
        return None

    return f


def after_an_exception(check, read, set_, harmless, other):
    def f(x):
        if check(x):
            try:
                harmless(x.missing)
            except AttributeError:
                return read()
        return None

    return f


def in_a_loop(check, read, set_, harmless, other):
    def f(x):
        found = []
        if check(x):
            for _ in x:
                found.append(read())
                other()
        return found

    return f


@pytest.mark.parametrize(
    ("make", "answer", "made"),
    [
        (plain, True, ["harmless"]),
        (set_to_another, True, ["set", "harmless", "set", "read"]),
        (disturbed, True, ["other", "set", "read"]),
        (unasked, True, ["set", "read", "read"]),
        (denied, False, ["read"]),
        (something_dies, True, ["set", "read"]),
        (after_an_exception, True, ["read"]),
        (in_a_loop, True, ["read", "other"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_state_is_known_from_the_check_to_what_may_change_it(make, answer, made):
    assert names_called(make, answer) == made


def test_a_tuple_of_declared_length_is_taken_apart():
    def pair(x):
        return (x, x)

    def f(x):
        made = list(pair(x))
        if len(made) != 2:
            raise AssertionError("a pair")
        return made[0]

    def g(x):
        return pair(x)

    knowledge = Knowledge(result_lengths={pair: 2}, no_unfold={pair: "it makes the tuple"})
    fn, fast = residual_of(f, knowledge=knowledge)
    assert fast(3) == f(3) == 3
    names = [op.name for block in fn.blocks for op in block.all_ops()]
    assert names.count("call") == 1
    assert "branch" not in names
    _, fast = residual_of(g, knowledge=knowledge)
    assert fast(3) == g(3) == (3, 3)
