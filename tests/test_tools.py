"""Specialised functions under debuggers, profilers, coverage and whatever else looks at frames."""

import bdb
import cProfile
import dis
import faulthandler
import inspect
import io
import linecache
import os
import pstats
import signal
import subprocess
import sys
import traceback
import tracemalloc
import types

import pytest

import bcspec

#: The file of the functions that the tests specialise.
NAME = "tools_example.py"

SOURCE = """\
def helper(x):
    y = x + 1
    return y

def make(numbers, verbose):
    def f(x):
        total = 0
        for n in numbers:
            total = total + helper(x) * n
        if verbose:
            print(total)
        try:
            total = total / x
        except ZeroDivisionError as error:
            return str(error)
        finally:
            pass
        return [total for _ in range(x)]

    return f

def make_generator(numbers):
    def f(x):
        for n in numbers:
            yield helper(x) * n

    return f

def loops(x):
    while x:
        x = x + 1
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("tools") / NAME
    path.write_text(SOURCE)
    made = types.ModuleType("tools_example")
    made.__file__ = str(path)
    sys.modules[made.__name__] = made
    exec(compile(SOURCE, str(path), "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


CALLS = [(0,), (2,), (2,), (0,)]


def results(function):
    return [
        list(found) if inspect.isgenerator(found := function(*args)) else found for args in CALLS
    ]


class Tracing:
    """`sys.settrace`, down to opcodes; `seen` has (event, file, line, function)."""

    def __init__(self):
        self.seen = []

    def __enter__(self):
        sys.settrace(self.event)
        return self

    def __exit__(self, *args):
        sys.settrace(None)

    def event(self, frame, event, arg):
        code = frame.f_code
        if not code.co_filename.endswith(NAME):
            return None
        frame.f_trace_opcodes = True
        frame.f_locals  # as a debugger shows it
        self.seen.append((event, code.co_filename, frame.f_lineno, code.co_name))
        return self.event


class Profiling(Tracing):
    """`sys.setprofile`."""

    def __enter__(self):
        sys.setprofile(self.event)
        return self

    def __exit__(self, *args):
        sys.setprofile(None)

    def event(self, frame, event, arg):
        code = frame.f_code
        self.seen.append((event, code.co_filename, frame.f_lineno, code.co_name))


#: Events of `sys.monitoring` that can be turned off for one piece of code.
LOCAL = "PY_START PY_RESUME PY_RETURN PY_YIELD CALL LINE INSTRUCTION JUMP BRANCH".split()


class Monitoring(Tracing):
    """`sys.monitoring`, all events."""

    def __enter__(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(4, "bcspec tests")
        names = [name for name in vars(monitoring.events) if name != "NO_EVENTS"]
        wanted = 0
        for name in names:
            monitoring.register_callback(4, getattr(monitoring.events, name), self.callback(name))
            wanted |= getattr(monitoring.events, name)
        monitoring.set_events(4, wanted)
        return self

    def callback(self, name):
        def called(code, where, *rest):
            if not code.co_filename.endswith(NAME):
                return sys.monitoring.DISABLE if name in LOCAL else None
            line = where if name == "LINE" else code.co_firstlineno
            event = name.lower() if name != "PY_START" else "call"
            self.seen.append((event, code.co_filename, line, code.co_name))

        return called

    def __exit__(self, *args):
        sys.monitoring.set_events(4, 0)
        for name in vars(sys.monitoring.events):
            if name != "NO_EVENTS":
                event = getattr(sys.monitoring.events, name)
                sys.monitoring.register_callback(4, event, None)
        sys.monitoring.free_tool_id(4)


WATCHERS = [Tracing, Profiling, *([Monitoring] if hasattr(sys, "monitoring") else [])]


def make_plain(module):
    return module.make((1, 2), False)


def make_generator(module):
    return module.make_generator((1, 2))


@pytest.mark.parametrize("make", [make_plain, make_generator])
@pytest.mark.parametrize("watcher", WATCHERS)
def test_what_a_watcher_sees_is_of_the_right_file(module, watcher, make):
    generic = make(module)
    fast = bcspec.partial_eval(generic, strict=True)
    expected = results(generic)
    with watcher() as theirs:
        assert results(generic) == expected
    with watcher() as ours:
        assert results(fast) == expected
    assert results(fast) == expected
    in_file = [each for each in ours.seen if each[1] == module.__file__]
    assert {each[3] for each in in_file} == {"f"}
    lines = {each[2] for each in in_file} - {None}  # the compiler's own instructions have none
    assert lines <= {each[2] for each in theirs.seen}
    called = [each for each in in_file if each[0] == "call"]
    assert len(called) >= len(CALLS) and called[0][2] == generic.__code__.co_firstlineno
    other = {each[1] for each in ours.seen} - {each[1] for each in theirs.seen}
    assert not other


@pytest.mark.parametrize("make", [make_plain, make_generator])
@pytest.mark.parametrize("watcher", WATCHERS)
def test_specialising_while_a_watcher_is_active(module, watcher, make):
    """Instrumented code is read as it was compiled."""
    generic = make(module)
    expected = results(generic)
    with watcher():
        results(generic)
        fast = bcspec.partial_eval(generic, strict=True)
        later = bcspec.partial_eval(generic, after=1)
        assert results(fast) == results(later) == expected
        bcspec.invalidate(fast)
        assert results(fast) == expected
        again = bcspec.partial_eval(fast, strict=True)
        assert results(again) == expected
    assert results(fast) == results(later) == results(again) == expected


@pytest.mark.parametrize("watcher", WATCHERS)
def test_invalidated_while_it_is_watched(module, watcher):
    fast = bcspec.partial_eval(make_plain(module), strict=True)
    expected = results(fast)

    class Breaking(watcher):
        def event(self, frame, event, arg):
            if frame.f_code.co_filename == module.__file__:
                bcspec.invalidate(fast)
            return super().event(frame, event, arg)

    with Breaking():
        assert results(fast) == expected
    assert results(fast) == expected


def test_lines_of_a_debugger(module):
    fast = bcspec.partial_eval(make_plain(module), strict=True)
    line = SOURCE.splitlines().index("            total = total / x") + 1
    stopped = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            if self.break_here(frame):
                stopped.append((frame.f_lineno, frame.f_locals["x"], frame.f_code.co_name))
            self.set_continue()

    debugger = Debugger()
    linecache.checkcache(module.__file__)
    assert debugger.set_break(module.__file__, line) is None
    assert debugger.runcall(fast, 2) == [4.5, 4.5]
    assert stopped == [(line, 2, "f")]


def test_a_traceback_with_locals(module):
    fast = bcspec.partial_eval(make_plain(module), strict=True)
    with pytest.raises(TypeError) as caught:
        fast("text")
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    last = shown.stack[-1]
    assert (last.filename, last.name) == (module.__file__, "f")
    assert SOURCE.splitlines()[last.lineno - 1].strip() in ("y = x + 1", last.line)
    assert last.locals["x"] == "'text'"


def test_profilers(module):
    fast = bcspec.partial_eval(make_plain(module), strict=True)
    profile = cProfile.Profile()
    profile.runcall(results, fast)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).print_stats()
    assert "tools_example.py:6(f)" in text.getvalue()
    tracemalloc.start()
    try:
        kept = [fast(2) for _ in range(50)]
        sizes = tracemalloc.take_snapshot().statistics("filename")
    finally:
        tracemalloc.stop()
    assert any(each.traceback[0].filename == module.__file__ for each in sizes) and kept


def test_a_traceback_of_all_threads(module, tmp_path):
    def dump(x):
        with open(tmp_path / "dump", "w+") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            return file.read()

    def make(dump, numbers):
        def f(x):
            for n in numbers:
                x = dump(x)
            return x

        return f

    fast = bcspec.partial_eval(make(dump, (1,)), strict=True)
    assert f'File "{__file__}"' in fast(1)


def test_it_can_be_disassembled(module):
    fast = bcspec.partial_eval(make_plain(module), strict=True)
    text = io.StringIO()
    dis.dis(fast, file=text)
    dis.show_code(fast, file=text)
    assert "RETURN_VALUE" in text.getvalue()
    lines = {line for _, line in dis.findlinestarts(fast.__code__)} - {None}
    assert min(lines) > 0 and max(lines) <= len(SOURCE.splitlines())
    assert len(list(fast.__code__.co_positions())) == len(fast.__code__.co_code) // 2


@pytest.mark.processes
def test_a_loop_can_be_interrupted(module):
    class Stop(Exception):
        pass

    def stop(*args):
        raise Stop

    fast = bcspec.partial_eval(module.loops, strict=True)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Stop):
            fast(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_recursion_is_limited():
    def make():
        def f(n):
            return f(n + 1) + 1

        return f

    fast = bcspec.partial_eval(make(), strict=True)
    with pytest.raises(RecursionError):
        fast(0)


MEASURED = """\
import sys
sys.path.insert(0, {root!r})
import bcspec

def helper(x):
    return x + 1

@bcspec.specialize
def make(numbers):
    def f(x):
        for n in numbers:
            x = helper(x) * n
        if x > 100:
            x = "never"
        return x
    return f

assert make((1, 2))(3) == 10
"""


def cores():
    if sys.version_info < (3, 12):
        return ["ctrace", "pytrace"]
    return ["ctrace", "pytrace", "sysmon"]


@pytest.mark.processes
@pytest.mark.parametrize("core", cores())
def test_coverage(tmp_path, core):
    coverage = pytest.importorskip("coverage")
    script = tmp_path / "measured.py"
    script.write_text(MEASURED.format(root=os.getcwd()))
    data = tmp_path / "data"
    run = subprocess.run(
        [sys.executable, "-m", "coverage", "run", "--include", str(script), str(script)],
        env={**os.environ, "COVERAGE_CORE": core, "COVERAGE_FILE": str(data)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    measured = coverage.CoverageData(str(data))
    measured.read()
    lines = set(measured.lines(str(script)))
    source = MEASURED.splitlines()
    assert {source.index(text) + 1 for text in ("    return x + 1", "        return x")} <= lines
    assert source.index('            x = "never"') + 1 not in lines
    assert max(lines) <= len(source)
