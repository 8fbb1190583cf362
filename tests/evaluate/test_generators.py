"""Generators that are run in place: what a function does with one, for each kind of generator."""

from __future__ import annotations

import gc
import sys
import types

import pytest

from bcspec.evaluate import Request, evaluate
from tests.harness import describe_exception, residual_of

PRELUDE = """
import sys
class Boom(Exception): pass
class Other(Exception): pass
class Obj:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        log("died", self.name)
    def __repr__(self):
        return "Obj " + self.name
def fail(kind=Boom):
    raise kind(1)
class Manager:
    def __enter__(self):
        log("enter")
        return 0
    def __exit__(self, kind, error, trace):
        log("exit", kind)
"""

GENERATORS = {
    "plain": "yield 1\n yield 2\n return 3",
    "finally": "try:\n  x = yield 1\n  log('x', x)\n  yield 2\n finally:\n  log('fin')",
    "ends": "try:\n  yield 1\n except (Boom, GeneratorExit) as e:\n  log(type(e))\n  return 9\n yield 3",
    "ignores": "try:\n  yield 1\n except GeneratorExit:\n  pass\n yield 2",
    "stops": "yield 1\n raise StopIteration(4)",
    "manages": "with Manager() as m:\n  yield m\n  yield 2",
    "argument": "yield a\n o = Obj('later')\n yield o",
}

USES = {
    "next": "g = gen(); log(next(g))",
    "next past the end": "g = gen(); log([next(g, 'd'), next(g, 'd'), next(g, 'd'), next(g, 'd')])",
    "next until it stops": (
        "g = gen()\n try:\n  while True: log(next(g))\n except StopIteration as s:\n  log(s.value, s.args)"
    ),
    "the exception is seen": (
        "g = gen()\n try:\n  log(next(g), next(g), next(g))\n except StopIteration as s:\n"
        "  log(sys.exc_info()[0], s.value)\n log(next(g, 7))"
    ),
    "send": "g = gen(); log(next(g)); log(g.send(4))",
    "send at first": "g = gen(); log(g.send(None))",
    "send too early": "g = gen(); log(g.send(1))",
    "close": "g = gen(); log(next(g)); log(g.close()); log(next(g, 'over'))",
    "close at first": "g = gen(); log(g.close()); log(next(g, 'over'))",
    "close twice": "g = gen(); next(g); g.close(); log(g.close())",
    "throw": (
        "g = gen(); next(g)\n try:\n  log(g.throw(Boom(1)))\n except Boom as e:\n"
        "  log(e.args, type(e.__context__))\n log(next(g, 'over'))"
    ),
    "throw a class": "g = gen(); next(g)\n try:\n  log(g.throw(Boom))\n except Exception as e:\n  log(type(e))",
    "throw what was caught": (
        "g = gen(); next(g)\n try:\n  fail()\n except Boom as e:\n  try:\n   log(g.throw(e))\n"
        "  except StopIteration as s:\n   log(s.value, type(s.__context__))\n log('k')"
    ),
    "throw in a handler": "g = gen(); next(g)\n try:\n  1 / 0\n except ZeroDivisionError:\n  log(g.throw(Boom(2)))",
    "throw at the end": "g = gen(); log(next(g, 0), next(g, 0), next(g, 0), next(g, 0)); g.throw(Boom(3))",
    "break": "for v in gen():\n  log(v)\n  break\n log('after')",
    "loop": "for v in gen():\n  log(v)\n else:\n  log('else')",
    "loop that fails": "try:\n  for v in gen():\n   fail()\n except Boom:\n  log('caught')\n log('x')",
    "it dies": "g = gen(); next(g); g = None; log('gone')",
    "it dies of an exception": "g = gen(); next(g); fail()",
    "it dies at the end": "g = gen(); next(g); return next(g)",
    "two": "g = gen(); h = gen(); log(next(g), next(h)); log(next(h, 0)); log(next(g, 0))",
    "close in finally": "g = gen()\n try:\n  log(next(g)); fail()\n finally:\n  g.close()",
    "it escapes": "g = gen(); next(g); log(sorted(g))",
    "its attributes": "g = gen(); next(g); log(g.gi_running, g.gi_frame is None)",
}

#: Not run in place, whatever the generator does.
STAY = {
    "next until it stops",
    "send too early",
    "throw a class",
    "throw at the end",
    "it escapes",
    "its attributes",
}

PROGRAM = """
def gen(a=5):
 {generator}
def f():
 first = Obj("first")
 {use}
 log("end")
 return first.name
"""


def module_of(generator: str, use: str) -> types.ModuleType:
    module = types.ModuleType("generators_under_test")
    module.entries = []
    module.log = lambda *values: module.entries.append(tuple(map(str, values)))
    sys.modules[module.__name__] = module
    source = PRELUDE + PROGRAM.format(generator=generator, use=use)
    exec(compile(source, "<generators>", "exec", dont_inherit=True), vars(module))
    return module


def run(module, function):
    module.entries.clear()
    value, raised = None, None
    try:
        value = function()
    except Exception as error:
        raised = describe_exception(error)
        error.__traceback__ = None
    gc.collect()
    return repr(value), raised, list(module.entries)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("use", USES)
def test_use(use):
    for name, generator in GENERATORS.items():
        module = module_of(generator, USES[use])
        expected = run(module, module.f)
        assert run(module, residual_of(module.f)[1]) == expected, name


@pytest.mark.parametrize("use", USES)
def test_a_plain_generator_is_run_in_place(use):
    module = module_of(GENERATORS["plain"], USES[use])
    residual = evaluate(Request(module.f))
    called = module.gen in [cell.cell_contents for cell in residual.cells]
    assert called == (use in STAY)


@pytest.mark.parametrize("use", ["break", "it dies", "it dies of an exception"])
def test_a_generator_that_would_have_code_to_run_when_it_dies_stays(use):
    module = module_of(GENERATORS["finally"], USES[use])
    residual = evaluate(Request(module.f))
    assert any("dies while it waits" in n.text for n in residual.notes if n.kind == "declined")


def test_stopiteration_inside_becomes_an_error():
    def f(x):
        return [each for each in (next(item) for item in (x, x))]

    fast = residual_of(f)[1]
    assert fast(iter([1, 2, 3])) == [1, 2]
    for function in (f, fast):
        with pytest.raises(RuntimeError, match="generator raised StopIteration") as caught:
            function(iter([1]))
        cause = caught.value.__cause__
        assert type(cause) is StopIteration and caught.value.__context__ is cause


def test_stopiteration_of_a_mapped_function_ends_the_loop():
    def f(function):
        return list(map(function, (1, 2, 3)))

    def until_two(x):
        if x == 2:
            raise StopIteration
        return x

    assert residual_of(f)[1](until_two) == f(until_two) == [1]
