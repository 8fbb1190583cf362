"""Which changes of a module are noticed, and what watching costs the module."""

import copy
import gc
import importlib
import subprocess
import sys
import threading
import types
import weakref
from unittest import mock

import pytest

import bcspec
from bcspec.assume import Listener, notify, release, watch_module, watchable

SOURCE = """
def helper(x):
    return x + 1

class Settings:
    def level(self):
        return 1

def f(x):
    return helper(x)

def g(x, settings):
    return Settings.level(settings) + x
"""


@pytest.fixture
def module(request):
    made = types.ModuleType("assume_example", "What it says.")
    sys.modules[made.__name__] = made
    exec(compile(SOURCE, "assume_example.py", "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


CHANGES = {
    "assignment": lambda module: setattr(module, "helper", lambda x: x + 5),
    "patch.object": lambda module: mock.patch.object(module, "helper", lambda x: x + 5).start(),
    "patch by name": lambda module: mock.patch("assume_example.helper", lambda x: x + 5).start(),
    "patch.multiple": lambda module: mock.patch.multiple(module, helper=lambda x: x + 5).start(),
    "monkeypatch": lambda module: pytest.MonkeyPatch().setattr(module, "helper", lambda x: x + 5),
    "another class of the module": lambda module: (
        delattr(module, "helper"),
        setattr(module, "helper", lambda x: x + 5),
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_changes_take_effect_at_the_next_call(module, how):
    fast = bcspec.partial_eval(module.f, strict=True)
    assert fast(1) == 2
    CHANGES[how](module)
    assert fast(1) == 6
    mock.patch.stopall()


def test_a_deleted_definition_is_missed_at_the_next_call(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    del module.helper
    with pytest.raises(NameError, match="helper"):
        fast(1)
    module.helper = lambda x: "back"
    assert fast(1) == "back"


def test_every_function_that_relies_on_it_is_told(module):
    several = [bcspec.partial_eval(module.f, strict=True) for _ in range(3)]
    module.helper = lambda x: 0
    assert [fast(1) for fast in several] == [0, 0, 0]


def test_other_variables_may_change(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    code = fast.__code__
    module.other = 1
    module.Settings = None
    del module.other
    assert fast.__code__ is code


def test_modules_of_one_name_are_told_apart(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    other = types.ModuleType(module.__name__)
    sys.modules[module.__name__] = other
    exec(SOURCE, vars(other))
    theirs = bcspec.partial_eval(other.f, strict=True)
    code = theirs.__code__
    module.helper = lambda x: "new"
    assert (fast(1), theirs(1)) == ("new", 2) and theirs.__code__ is code


def test_a_change_while_it_is_specialised_is_noticed(module, monkeypatch):
    evaluate = bcspec.api.evaluate

    def slow(request):
        residual = evaluate(request)
        module.helper = lambda x: "changed meanwhile"
        monkeypatch.undo()
        return residual

    monkeypatch.setattr(bcspec.api, "evaluate", slow)
    assert bcspec.partial_eval(module.f)(1) == "changed meanwhile"


def test_a_watched_module_is_like_any_other(module):
    bcspec.partial_eval(module.f, strict=True)
    assert isinstance(module, types.ModuleType) and type(module).__name__ == "module"
    assert repr(module).startswith("<module 'assume_example'")
    assert module.__doc__ == "What it says."
    with pytest.raises(AttributeError, match="module 'assume_example' has no attribute 'missing'"):
        module.missing
    with pytest.raises(AttributeError):
        del module.missing
    vars(module)["__getattr__"] = lambda name: f"dynamic {name}"
    assert module.missing == "dynamic missing"
    assert sorted(vars(module)) == dir(module)


def test_a_reloaded_module(tmp_path, monkeypatch):
    body = "def helper(x):\n    return {}\n\ndef f(x):\n    return helper(x)\n"
    module = imported(tmp_path, monkeypatch, body.format(1))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    fast = bcspec.partial_eval(module.f, strict=True)
    for value in (2222, 33333):
        (tmp_path / "assume_imported.py").write_text(body.format(value))
        importlib.reload(module)
        assert module.f(0) == fast(0) == value


def imported(tmp_path, monkeypatch, body):
    """A module with this text, imported for the test."""
    (tmp_path / "assume_imported.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    with mock.patch.dict(sys.modules):
        return importlib.import_module("assume_imported")


SPECIALISES_ITSELF = """
import bcspec

def helper(x):
    return "first"

def f(x):
    return helper(x)

fast = bcspec.partial_eval(f, strict=True)
first = fast(0)
"""


@pytest.mark.parametrize(
    ("rest", "last"),
    [
        ("", "first"),
        ("def helper(x): return 'second'", "second"),
        ("if first: helper = lambda x: 'second'", "second"),
        ("from assume_imported_second import *", "second"),
        ("helper, other = (lambda x: 'second'), 1", "second"),
    ],
)
def test_a_module_that_is_being_imported(tmp_path, monkeypatch, rest, last):
    (tmp_path / "assume_imported_second.py").write_text("def helper(x): return 'second'")
    module = imported(tmp_path, monkeypatch, SPECIALISES_ITSELF + rest)
    assert (module.first, module.fast(0), module.f(0)) == ("first", last, last)
    assert ("helper: watched" in bcspec.explain(module.fast)) == (not rest)


def test_modules_imported_after_sys_is_watched(tmp_path, monkeypatch):
    def f():
        return sys.exc_info()

    assert bcspec.partial_eval(f, strict=True)() == (None, None, None)
    module = imported(tmp_path, monkeypatch, SPECIALISES_ITSELF)
    assert "helper: watched" in bcspec.explain(module.fast)


def test_a_loop_in_a_module_binds_again(tmp_path, monkeypatch):
    body = """
import bcspec
found = []
for n in range(3):
    def helper(x):
        return n
    def f(x):
        return helper(x)
    if n == 0:
        fast = bcspec.partial_eval(f, strict=True)
    found.append(fast(0))
"""
    assert imported(tmp_path, monkeypatch, body).found == [0, 1, 2]


@pytest.mark.processes
def test_what_a_user_types_is_not_assumed():
    """Each input is code of its own that binds names of ``__main__`` behind its back."""
    typed = """
import bcspec
def helper(x): return "first"

def f(x): return helper(x)

fast = bcspec.partial_eval(f, strict=True)
print(fast(0))
def helper(x): return "second"

print(fast(0))
"""
    run = subprocess.run(
        [sys.executable, "-i", "-q"], input=typed, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.split() == ["first", "second"], run.stderr


class Refusing(types.ModuleType):
    def __setattr__(self, name, value):
        if name == "__class__":
            raise TypeError("no")
        super().__setattr__(name, value)


class Silent(types.ModuleType):
    def __setattr__(self, name, value):
        if name != "__class__":
            super().__setattr__(name, value)


@pytest.mark.parametrize("cls", [Refusing, Silent])
def test_a_module_that_cannot_be_watched_is_not_assumed(module, cls):
    odd = cls(module.__name__)
    sys.modules[module.__name__] = odd
    exec(SOURCE, vars(odd))
    assert not watchable(odd)
    assert not watch_module(odd, "helper", odd.helper, Listener(print))
    fast = bcspec.partial_eval(odd.f, strict=True)
    odd.helper = lambda x: "new"
    assert fast(1) == "new"


class Own(types.ModuleType):
    __slots__ = ()

    @property
    def lazy(self):
        return "lazy"

    def __setattr__(self, name, value):
        if name.startswith("fixed"):
            raise AttributeError(name)
        super().__setattr__(name, value)


def test_a_module_with_a_class_of_its_own_keeps_its_ways(module):
    own = Own(module.__name__)
    sys.modules[module.__name__] = own
    exec(SOURCE, vars(own))
    fast = bcspec.partial_eval(own.f, strict=True)
    assert own.lazy == "lazy" and isinstance(own, Own)
    with pytest.raises(AttributeError):
        own.fixed = 1
    own.helper = lambda x: "new"
    assert fast(1) == "new"


def test_listeners_are_called_once_and_die_with_their_owner(module):
    told = []
    listener = Listener(told.append)
    assert watch_module(module, "helper", module.helper, listener)
    module.helper = module.helper
    module.helper = 2
    assert told == ["assume_example.helper was rebound"]
    watch_module(module, "helper", 2, listener)
    reference = weakref.ref(listener)
    del listener
    gc.collect()
    assert reference() is None
    notify(module, "helper")
    assert len(told) == 1


def test_a_listener_that_is_late_is_told_at_once(module):
    told = []
    listener = Listener(told.append)
    watch_module(module, "helper", lambda x: "what it was", listener)
    assert told == ["assume_example.helper was rebound"]


def test_a_module_is_released_when_nothing_relies_on_it(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    release()
    assert type(module) is not types.ModuleType
    module.helper = lambda x: "new"
    assert fast(1) == "new"
    del fast
    gc.collect()
    release()
    assert type(module) is types.ModuleType
    fast = bcspec.partial_eval(module.f, strict=True)
    module.helper = lambda x: "newer"
    assert fast(1) == "newer"


def test_a_watched_module_and_what_relies_on_it_die():
    module = types.ModuleType("assume_dying")
    sys.modules[module.__name__] = module
    exec(SOURCE, vars(module))
    fast = bcspec.partial_eval(module.f, strict=True)
    references = [weakref.ref(module), weakref.ref(fast), weakref.ref(module.helper)]
    del sys.modules[module.__name__], fast, module
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


@pytest.mark.processes
def test_threads_rebind_what_others_rely_on(module):
    def value(n):
        return lambda x: n

    module.helper = value(0)
    stop = threading.Event()
    wrong = []

    def rely():
        while not stop.is_set():
            fast = bcspec.partial_eval(module.f)
            before = latest[0]
            found = fast(1)
            if found < before:
                wrong.append((before, found))

    latest = [0]
    threads = [threading.Thread(target=rely) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(1, 150):
        module.helper = value(n)
        latest[0] = n
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_class_defines_is_said_not_to_be_watched(module):
    fast = bcspec.partial_eval(module.g, strict=True)
    assert "level: not watched, definitions in a class stay" in bcspec.explain(fast)
    assert "Settings: watched, a definition in a module stays" in bcspec.explain(fast)
    assert copy.deepcopy(fast)(1, None) == 2
