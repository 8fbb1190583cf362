"""Context managers written as generators: each way to go on, with each end of the body.

The generic run is the oracle: value, exception with its chain, and the effects in their order, among
them what `sys.exception` is and when objects die.
"""

from __future__ import annotations

import contextlib
import sys
import types

import pytest

from bcspec.evaluate import Request, evaluate
from tests.harness import describe_exception, operations, residual_of

PRELUDE = """
import contextlib, sys
class Boom(Exception): pass
class Other(Exception): pass
class Stop(StopIteration): pass
class Obj:
    def __init__(self, name):
        self.name = name
        log("new", name)
    def __del__(self):
        log("died", self.name)
    def __repr__(self):
        return "Obj " + self.name
def fail(kind):
    local = Obj("local")
    raise kind(1)
@contextlib.contextmanager
def outer(name):
    log("outer", name)
    try:
        yield name
    except Boom as error:
        log("outer boom", error.args)
        raise
    finally:
        log("outer left", name)
"""

#: What the generator does.
MANAGERS = {
    "plain": "log('in'); yield 1; log('out')",
    "finally": "log('in')\n try:\n  yield 1\n finally:\n  log('out', sys.exc_info()[0])",
    "swallows": "try:\n  yield Obj('y')\n except Boom as e:\n  log(e.args, sys.exc_info()[0])",
    "raises again": "try:\n  yield 1\n except Boom:\n  log('again')\n  raise",
    "raises another": "try:\n  yield 1\n except Boom:\n  raise Other(2)",
    "raises from": "try:\n  yield 1\n except Boom as e:\n  raise Other(2) from e",
    "raises StopIteration": "try:\n  yield 1\n except Exception:\n  raise StopIteration(5)",
    "catches all": "try:\n  yield 1\n except BaseException:\n  return 7",
    "fails at once": "o = Obj('o')\n if o: fail(Boom)\n yield",
    "fails afterwards": "yield 3\n fail(Boom)",
    "stops at once": "if log: raise StopIteration('b')\n yield",
    "stops afterwards": "yield 3\n raise StopIteration('b')",
    "never yields": "if not log:\n  yield",
    "yields twice": "yield 1\n log('between')\n yield 2",
    "yields after it has caught": "try:\n  yield 1\n except Boom:\n  log('x')\n  yield 2",
    "waits while it handles": "try:\n  fail(Boom)\n except Boom:\n  yield 1",
    "around another": "with outer('x') as q:\n  yield q\n log('done')",
    "suppresses": "with contextlib.suppress(Boom):\n  yield 1\n log('after')",
    "objects": "a = Obj('a')\n try:\n  yield a\n finally:\n  log('f')\n  a = None\n  log('g')",
    "returns in finally": "try:\n  yield 1\n finally:\n  return",
    "catches inside": "try:\n  yield 1\n finally:\n  try:\n   raise Other(1)\n  except Other as e:\n   log('c')",
}

#: How the body ends.
BODIES = {
    "falls through": "log('body', v)",
    "fails": "log('body'); fail(Boom)",
    "stops": "raise Stop(1)",
    "in a runtime error": "raise RuntimeError(3)",
    "leaves": "return 3",
}

PROGRAM = """
@contextlib.contextmanager
def cm(arg=4, *, more=5):
 {manager}
def f():
 first = Obj("first")
 with cm() as v:
  {body}
 log("end")
 return first.name
def g():
 try:
  fail(KeyError)
 except KeyError:
  with cm(3, more=6):
   fail(Boom)
 log("end")
"""

#: Not run in place, and why.
STAY = {
    "waits while it handles": "yields while it handles an exception",
    "yields after it has caught": "yields while it handles an exception",
}


def module_of(manager: str, body: str) -> types.ModuleType:
    module = types.ModuleType("contexts_under_test")
    module.entries = []
    module.log = lambda *values: module.entries.append(tuple(map(str, values)))
    sys.modules[module.__name__] = module
    source = PRELUDE + PROGRAM.format(manager=manager, body=body)
    exec(compile(source, "<contexts>", "exec", dont_inherit=True), vars(module))
    return module


def run(module, function):
    module.entries.clear()
    value, raised = None, None
    try:
        value = function()
    except BaseException as error:
        raised = describe_exception(error)
        while error is not None:  # let go of the frames
            error.__traceback__ = None
            error = error.__context__
    return repr(value), raised, list(module.entries)


def without_deaths(outcome):
    value, raised, entries = outcome
    return value, raised, [entry for entry in entries if entry[0] != "died"]


@pytest.mark.parametrize("manager", MANAGERS)
def test_with_statement(manager):
    for name, body in BODIES.items():
        module = module_of(MANAGERS[manager], body)
        expected = run(module, module.f)
        found = run(module, residual_of(module.f)[1])
        # A frame that an exception has passed lives as long as its traceback (from 3.12 on, that of
        # `__exit__` longer); residual code has no such frame.
        if name not in ("falls through", "leaves"):
            expected, found = without_deaths(expected), without_deaths(found)
        assert found == expected, name


@pytest.mark.parametrize("manager", MANAGERS)
def test_inside_a_handler(manager):
    module = module_of(MANAGERS[manager], "pass")
    expected = without_deaths(run(module, module.g))
    assert without_deaths(run(module, residual_of(module.g)[1])) == expected


@pytest.mark.parametrize("manager", MANAGERS)
def test_nothing_of_the_manager_is_left(manager):
    module = module_of(MANAGERS[manager], BODIES["fails"])
    residual = evaluate(Request(module.f))
    declined = [
        note.text for note in residual.notes if note.kind == "declined" and "cm" in note.text
    ]
    if manager in STAY:
        assert any(STAY[manager] in text for text in declined)
    else:
        assert declined == []
        held = [cell.cell_contents for cell in residual.cells]
        assert module.cm.__wrapped__ not in held
        assert contextlib._GeneratorContextManager not in held


def test_the_usual_path_has_no_exception():
    module = module_of(MANAGERS["finally"], BODIES["falls through"])
    fn = residual_of(module.f)[0]
    seen, block = [], fn.blocks[0]
    while block.term.name == "jump":
        seen += [op.name for op in block.ops]
        block = block.edges[0].target
    assert block.term.name == "return_value"
    assert "raise_varargs" not in seen and "push_exc_info" not in seen


def test_the_line_of_the_with_statement_is_in_the_traceback():
    module = module_of(MANAGERS["fails afterwards"], BODIES["falls through"])
    lines = []
    for function in (module.f, residual_of(module.f)[1]):
        with pytest.raises(module.Boom) as caught:
            function()
        lines.append([e.lineno for e in caught.traceback if e.name == "f"])
    assert lines[0] == lines[1] or len(lines[1]) == 1


class Suppressing:
    """A class whose methods look at what they are given."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            return None
        self.log.append((kind, error.args, trace is not None, isinstance(kind, type)))
        return issubclass(kind, ValueError)


def test_exit_gets_class_instance_and_traceback():
    def f(log, error):
        with Suppressing(log):
            if error is not None:
                raise error
        return "end"

    fn, fast = residual_of(f)
    for error in (None, ValueError(1), KeyError(2)):
        outcomes = []
        for function in (f, fast):
            log = []
            try:
                outcomes.append((function(log, error), log))
            except KeyError as caught:
                outcomes.append((caught.args, log))
        assert outcomes[0] == outcomes[1]
    assert "with_except_start" not in operations(fn)


def test_an_attribute_of_a_virtual_instance_is_deleted():
    class Box:
        def __init__(self, value):
            self.value = value

    def f(x):
        box = Box(x)
        del box.value
        return hasattr(box, "value")

    def again(x):
        box = Box(x)
        del box.value
        del box.value

    assert residual_of(f)[1](1) is f(1) is False
    with pytest.raises(AttributeError):
        residual_of(again)[1](1)
