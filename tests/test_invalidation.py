"""Assumptions that break, functions that are specialised later or once more."""

import inspect
import logging
import pickle
import sys
import threading
import types
from unittest import mock

import pytest

import bcspec

SOURCE = """
def helper(x):
    return x + 1

def rebinds():
    global moving
    def moving(x):
        return x * 100

def moving(x):
    return x + 10

def f(x, *, y=0):
    return helper(x) + y

def g(x):
    return moving(x)
"""


@pytest.fixture
def module():
    made = types.ModuleType("invalidation_example")
    sys.modules[made.__name__] = made
    exec(compile(SOURCE, "invalidation_example.py", "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


def unfolds(function):
    return "helper" in bcspec.explain(function).split("unfolded:")[-1]


def test_a_patched_definition_takes_effect_and_back(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    assert fast(1) == 2 and unfolds(fast)
    with mock.patch.object(module, "helper", lambda x: x - 1):
        assert fast(1, y=3) == 3
    assert fast(1) == 2


def test_the_function_object_stays_and_keeps_its_face(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    signature = inspect.signature(fast)
    with mock.patch.object(module, "helper", lambda x: 0):
        fast(1)
        assert inspect.signature(fast) == signature
        assert fast.__kwdefaults__ == {"y": 0}


def test_it_is_specialised_again_three_times_at_most(module, caplog):
    caplog.set_level(logging.WARNING, logger="bcspec")
    fast = bcspec.partial_eval(module.f, strict=True)
    for round_ in range(6):
        module.helper = lambda x, round_=round_: x + round_
        assert fast(1) == 1 + round_
    assert [r.getMessage() for r in caplog.records] == [
        "f stays generic: its assumptions broke too often"
    ]


def test_what_is_specialised_again_is_explained(module):
    fast = bcspec.partial_eval(module.f, strict=True)

    def helper(x):
        return x + 7

    module.helper = helper
    assert fast(1) == 8
    text = bcspec.explain(fast)
    assert "broken" not in text
    assert "test_what_is_specialised_again_is_explained.<locals>.helper" in text
    assert bcspec.original(fast) is module.f


def test_fixed_arguments_stay_fixed_after_an_invalidation(module):
    fast = bcspec.partial_eval(module.f, {"y": 5}, strict=True)
    assert fast(1) == 7
    module.helper = lambda x: x
    assert fast(1) == 6
    with pytest.raises(TypeError):
        fast(1, y=2)


def test_a_global_that_module_code_rebinds_is_not_assumed(module):
    fast = bcspec.partial_eval(module.g, strict=True)
    assert fast(1) == 11
    module.rebinds()
    assert fast(1) == 100


def test_a_call_that_runs_finishes_as_it_began(module):
    def helper(x):
        module.helper = lambda x: 0
        return x + 1

    module.helper = helper
    fast = bcspec.partial_eval(module.f, strict=True)
    assert fast(1) == 2
    assert fast(1) == 0


def test_user_variables_named_like_ours_are_left_alone():
    def make():
        def generic(n):
            return 1 if n == 0 else n * generic(n - 1)

        return generic

    generic = make()
    fast = bcspec.partial_eval(generic, strict=True)
    bcspec.api.invalidate(fast)
    assert fast(5) == 120
    assert generic.__closure__[0].cell_contents is generic


# -- specialised after some calls ---------------------------------------------------------------


class State:
    first = True


def make_counting(state):
    def wrapper(x):
        if state.first:
            state.first = False
            return ("first", x)
        return ("later", x)

    return wrapper


def test_settled_state_is_taken_after_the_calls():
    state = State()
    knowledge = bcspec.Knowledge(frozen_types={State: "settles in the first call"})
    wrapper = bcspec.specialize(make_counting, knowledge=knowledge, after=1)(state)
    assert [wrapper(n) for n in range(4)] == [
        ("first", 0),
        ("later", 1),
        ("later", 2),
        ("later", 3),
    ]
    assert "first" not in bcspec.explain(wrapper).split("removed:")[0]


def test_a_function_that_is_specialised_later_has_its_face():
    def f(a, /, b: int = 2, *args, c=3, **kwargs) -> str:
        """Says something."""
        return f"{a}{b}{args}{c}{kwargs}"

    later = bcspec.partial_eval(f, after=2)
    for _ in range(5):
        assert later(1, 5, 6, c=7, d=8) == f(1, 5, 6, c=7, d=8)
        assert inspect.signature(later) == inspect.signature(f)
        assert (later.__name__, later.__doc__, later.__qualname__) == (
            f.__name__,
            f.__doc__,
            f.__qualname__,
        )
        with pytest.raises(TypeError):
            later()


def test_after_excludes_constants_and_strict():
    with pytest.raises(ValueError, match="after"):
        bcspec.partial_eval(make_counting, {"state": 1}, after=1)
    with pytest.raises(ValueError, match="after"):
        bcspec.partial_eval(make_counting, strict=True, after=1)


@pytest.mark.processes
def test_threads_share_the_specialisation():
    later = bcspec.partial_eval(make_counting(mock.Mock(first=False)), after=3)
    wrong = []

    def work():
        for n in range(200):
            if later(n) != ("later", n):
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    bcspec.explain(later)


def top_level(x):
    return x


def test_the_generic_function_still_pickles():
    bcspec.partial_eval(top_level, after=1)
    assert pickle.loads(pickle.dumps(top_level)) is top_level
