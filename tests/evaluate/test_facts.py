"""What may be taken as constant: cells and globals, each with the reason or the obstacle."""

from __future__ import annotations

import sys
import types

import pytest

from bcspec.evaluate import Request, evaluate
from tests.harness import operations, residual_of

MODULE = """
TABLE = [1]
def helper(x):
    return x + 1
def rebound(x):
    return x + 2
def rebind(value):
    global rebound
    rebound = value
def settled(n):
    def inner(x):
        return x + n
    return inner
def counted(n):
    def inner(x):
        return x + n
    def step():
        nonlocal n
        n += 1
    return inner, step
def deleted(n):
    def inner(x):
        return n
    def drop():
        nonlocal n
        del n
    return inner, drop
def generator(n):
    def inner(x):
        return x + n
    yield inner
    n = n + 1
    yield inner
class Holder:
    @staticmethod
    def make(n):
        def inner(x):
            return x + n
        return inner
def uses_helper(x):
    return helper(x)
def uses_rebound(x):
    return rebound(x)
def uses_table(x):
    return TABLE[0] + x
def uses_builtin(x):
    return len((x, x))
def uses_nothing(x):
    return nowhere
"""


@pytest.fixture
def module():
    made = types.ModuleType("facts_example")
    sys.modules[made.__name__] = made
    exec(compile(MODULE, "facts_example.py", "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


def assumed(function):
    """Kind of assumption and reason, by name."""
    return {a.name: (a.kind, a.reason) for a in evaluate(Request(function)).assumptions}


def test_a_cell_that_nothing_binds_is_constant(module):
    for inner in (module.settled(5), module.Holder.make(5)):
        fn, fast = residual_of(inner)
        assert fast(1) == 6 and "load_deref" not in operations(fn)
        assert assumed(inner)["n"][0] == "proved"


@pytest.mark.parametrize("factory", ["counted", "deleted"])
def test_a_cell_that_another_closure_binds_is_read(module, factory):
    inner, change = getattr(module, factory)(5)
    fast = residual_of(inner)[1]
    assert fast(1) == inner(1) and "n" not in assumed(inner)
    change()
    outcomes = []
    for each in (inner, fast):
        try:
            outcomes.append(each(1))
        except NameError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_cell_of_a_generator_that_goes_on_is_read(module):
    made = module.generator(5)
    inner = next(made)
    fast = residual_of(inner)[1]
    assert fast(1) == 6
    next(made)
    assert fast(1) == inner(1) == 7


def test_a_definition_is_watched(module):
    assert assumed(module.uses_helper)["helper"][0] == "watched"
    assert residual_of(module.uses_helper)[1](1) == 2


def test_a_name_that_the_module_rebinds_is_read(module):
    fast = residual_of(module.uses_rebound)[1]
    assert "rebound" not in assumed(module.uses_rebound)
    module.rebind(lambda x: -x)
    assert fast(1) == -1


def test_a_variable_is_read(module):
    fast = residual_of(module.uses_table)[1]
    module.TABLE = [10]
    assert fast(1) == 11


def test_a_builtin_is_declared(module):
    assert assumed(module.uses_builtin)["len"][0] == "declared"


def test_a_name_that_does_not_exist_is_told(module):
    with pytest.raises(NameError, match="nowhere"):
        residual_of(module.uses_nothing)[1](1)


def test_without_a_module_nothing_is_assumed(module):
    del sys.modules[module.__name__]
    try:
        assert "helper" not in assumed(module.uses_helper)
        assert residual_of(module.uses_helper)[1](1) == 2
    finally:
        sys.modules[module.__name__] = module
