"""Declared knowledge: what it folds, what it leaves, and what is read at each call."""

import sys
import types

import pytest

import bcspec
from bcspec.knowledge import EntryGuard, Equivalent, Knowledge
from tests.harness import operations, residual_of


@pytest.fixture
def other():
    """Another module, with functions that make functions."""
    module = types.ModuleType("knowledge_example")
    sys.modules[module.__name__] = module
    source = """
def make(x, sink):
    y = x
    def inner(a: int, b=2, *, c: str = "q") -> float:
        return (a, b, c, y)
    sink(inner)

def imports():
    from knowledge_example import constant
    return constant()

def constant():
    return 7
"""
    exec(compile(source, "knowledge_example.py", "exec"), vars(module))
    yield module
    del sys.modules[module.__name__]


def test_a_function_of_another_module_escapes_with_all_it_has(other):
    make = other.make

    def f(x, sink):
        make(x, sink)

    made = []
    bcspec.partial_eval(f, strict=True)(5, made.append)
    f(5, made.append)
    ours, theirs = made
    for name in ("__annotations__", "__defaults__", "__kwdefaults__", "__qualname__", "__module__"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours(1, c=3) == theirs(1, c=3) == (1, 2, 3, 5)
    assert ours.__globals__ is vars(other)


def test_imports_of_stable_modules_fold(other):
    imports = other.imports

    def f():
        return imports()

    stable = Knowledge(stable_modules={other.__name__: "never rebound"})
    fn, fast = residual_of(f, knowledge=stable)
    assert fast() == 7
    assert operations(fn) == ["const", "return_value"]
    fn, fast = residual_of(f)
    assert fast() == 7
    assert "import_name" in operations(fn)


class Thing:
    def method(self):
        return "class"


def test_volatile_attributes_are_read_at_each_call():
    thing = Thing()

    def f():
        return thing.method()

    known = Knowledge(volatile={(id(thing), "method"): "users replace it"})
    fast = bcspec.partial_eval(f, knowledge=known, strict=True)
    assert fast() == "class"
    thing.method = lambda: "instance"
    assert fast() == "instance"


class Flags:
    on = False


def guarded(x):
    return ("guarded", x)


def plain(x):
    return ("plain", x)


def test_an_equivalent_is_called_while_its_guards_hold():
    def f(x):
        return guarded(x)

    off = EntryGuard(Flags, "on", False, "set by tests")
    known = Knowledge(equivalents={guarded: Equivalent(plain, (off,))})
    fast = bcspec.partial_eval(f, knowledge=known, strict=True)
    assert fast(1) == ("plain", 1)
    Flags.on = True
    try:
        assert fast(1) == ("guarded", 1)
    finally:
        Flags.on = False
    assert fast(1) == ("plain", 1)


def test_frozen_containers_of_globals_and_cells_are_known_with_their_items():
    table = [1, 2]

    def f():
        total = 0
        for item in table:
            total += item
        return total

    known = Knowledge()
    known.freeze(table, "never changed")
    fn, fast = residual_of(f, knowledge=known)
    assert fast() == 3
    assert operations(fn) == ["const", "return_value"]
