"""The selftests notice what goes wrong, and let what is right pass."""

import asyncio
import dis
import functools
import importlib.util
import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from bcspec.selftest import compare, cpython, roundtrip
from bcspec.selftest.hook import Hook, load_transform, run_names
from bcspec.selftest.transform import identity, transform_tree, walk
from bcspec.selftest.transform import roundtrip as lift_and_lower

SOURCE = '''
def outer(a, *, b=1.0):
    """Documented."""
    def inner():
        return a, b, 0.0
    if a:
        return inner
    raise ValueError(b)
'''


def code_of(source, name):
    (found,) = [code for code in walk(compile(source, "sample.py", "exec")) if code.co_name == name]
    return found


OUTER = code_of(SOURCE, "outer")
INNER = code_of(SOURCE, "inner")


# -- what a comparison notices ---------------------------------------------------------------


def shifted_line(code):
    return code.replace(co_firstlineno=code.co_firstlineno + 1)


def without_lines(code):
    """Every instruction without a position."""
    units = len(code.co_code) // 2
    return code.replace(co_linetable=bytes([0xF8]) * units)


def changed_zero(code):
    return code.replace(
        co_consts=tuple(-0.0 if c == 0.0 and type(c) is float else c for c in code.co_consts)
    )


MUTANTS = [
    (lambda code: code.replace(co_name="other"), "co_name"),
    (lambda code: code.replace(co_qualname="other"), "co_qualname"),
    (lambda code: code.replace(co_flags=code.co_flags | 0x20), "co_flags"),
    (lambda code: code.replace(co_consts=("Other.", *code.co_consts[1:])), "docstring"),
    (lambda code: code.replace(co_consts=(*code.co_consts, 12345)), "co_consts gained"),
    (lambda code: code.replace(co_names=(*code.co_names, "more")), "co_names gained"),
    (lambda code: code.replace(co_names=()), "co_names lost"),
    (shifted_line, "co_lines gained"),
    (shifted_line, "co_firstlineno"),
    (without_lines, "co_lines lost"),
]


@pytest.mark.parametrize("mutate, expected", MUTANTS)
def test_a_difference_is_noticed(mutate, expected):
    found = compare.differences(OUTER, mutate(OUTER))
    assert any(difference.partition(":")[0] == expected for difference in found), found


@pytest.mark.parametrize(
    "mutate, expected",
    [
        (changed_zero, "co_consts gained"),
        (lambda code: code.replace(co_freevars=code.co_freevars[::-1]), "co_freevars"),
    ],
)
def test_a_small_difference_is_the_only_one(mutate, expected):
    found = compare.differences(INNER, mutate(INNER))
    assert [difference.partition(":")[0] for difference in found] == [expected]


def test_a_missing_line_is_noticed():
    code = code_of("def f():\n    return 1", "f")
    assert "co_lines gained None" in compare.differences(code, without_lines(code))


def test_the_same_code_has_no_differences():
    for code in walk(compile(SOURCE, "sample.py", "exec")):
        assert compare.differences(code, code.replace()) == []


def test_a_handler_that_nothing_reaches_may_go():
    def guarded(x):
        try:
            pass
        except ValueError:
            x.foo()
        return 1

    names = {i.argval for i in compare.reachable(guarded.__code__) if i.opcode in dis.hasname}
    assert names == set()


def test_a_handler_that_a_call_reaches_is_reachable():
    def guarded(x):
        try:
            x()
        except ValueError:
            x.foo()

    names = {i.argval for i in compare.reachable(guarded.__code__) if i.opcode in dis.hasname}
    assert names == {"ValueError", "foo"}


# -- round trip ------------------------------------------------------------------------------


def refuse(code):
    raise NotImplementedError(f"{code.co_qualname} at {code.co_firstlineno} is refused")


def refuse_inner(code):
    return refuse(code) if code.co_name == "inner" else code


def test_failures_of_one_kind_have_one_reason():
    failures = [
        failure
        for code in walk(compile(SOURCE, "sample.py", "exec"))
        for failure in roundtrip.check_code(code, refuse)
    ]
    assert {failure.reason for failure in failures} == {
        "NotImplementedError: FUNCTION at N is refused [test_selftest.py, refuse]"
    }
    assert [failure.function for failure in failures] == [
        "<module>",
        "outer",
        "outer.<locals>.inner",
    ]


def test_a_short_name_is_replaced_as_a_word_only():
    assert roundtrip.reason_of("IRCheckError: f, block b3: after f", "f") == (
        "IRCheckError: FUNCTION, block bN: after FUNCTION"
    )


def test_a_file_counts_every_nested_code_object(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(SOURCE)
    result = roundtrip.check_file(path, identity)
    assert (result.count, result.failures, result.uncompiled) == (3, [], None)


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"print 'no'", "SyntaxError"),
        (b"x = '\0'", "SyntaxError"),
        (b"# coding: nonsense\n", "SyntaxError"),
    ],
)
def test_a_file_that_does_not_compile_is_counted_with_its_reason(tmp_path, content, reason):
    path = tmp_path / "bad.py"
    path.write_bytes(content)
    result = roundtrip.check_file(path, identity)
    assert result.count == 0
    assert result.uncompiled.partition(":")[0] in (reason, "ValueError")


def test_each_file_is_taken_once(tmp_path):
    (tmp_path / "package").mkdir()
    small, large = tmp_path / "package" / "small.py", tmp_path / "large.py"
    small.write_text("1")
    large.write_text("1" * 100)
    (tmp_path / "text.txt").write_text("not Python")
    assert roundtrip.source_files([tmp_path, small, tmp_path / "package"]) == [large, small]


def test_the_default_is_what_this_interpreter_can_import():
    files = roundtrip.source_files()
    assert Path(functools.__file__).resolve() in files
    assert Path(pytest.__file__).resolve() in files
    importable = [Path(entry).resolve() for entry in sys.path]
    installed = [path for path in files if "site-packages" in path.parts]
    assert all(any(path.is_relative_to(entry) for entry in importable) for path in installed)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_all_well_is_exit_status_zero(tmp_path, capsys, jobs):
    (tmp_path / "sample.py").write_text(SOURCE)
    (tmp_path / "bad.py").write_text("print 'no'")
    assert roundtrip.main([tmp_path], jobs=jobs) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 code objects in 2 files: lift, lower and verify")
    assert "files that do not compile: 1" in out
    assert str(tmp_path / "bad.py") in out
    assert "failures (0 code objects): 0" in out


def test_any_failure_is_exit_status_one(tmp_path, capsys, monkeypatch):
    (tmp_path / "sample.py").write_text(SOURCE)
    monkeypatch.setattr(roundtrip, "roundtrip", refuse_inner)
    assert roundtrip.main([tmp_path], jobs=1) == 1
    out = capsys.readouterr().out
    assert "failures (1 code objects): 1" in out
    assert f"outer.<locals>.inner ({tmp_path / 'sample.py'}:4)" in out


def test_nothing_to_check_is_exit_status_two(tmp_path, capsys):
    assert roundtrip.main([tmp_path], jobs=1) == 2
    assert roundtrip.main([tmp_path / "missing"], jobs=1) == 2
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize("module", [asyncio.tasks, functools, dis, json.decoder])
def test_library_modules_come_back_unchanged(module):
    result = roundtrip.check_file(Path(module.__file__))
    assert result.count > 5
    assert result.failures == []


# -- trees -----------------------------------------------------------------------------------


def test_a_tree_is_transformed_innermost_first():
    seen = []

    def rename(code):
        seen.append(code.co_name)
        return code.replace(co_name=code.co_name.upper())

    tree = transform_tree(compile(SOURCE, "sample.py", "exec"), rename, pytest.fail)
    assert seen == ["inner", "outer", "<module>"]
    assert [code.co_name for code in walk(tree)] == ["<MODULE>", "OUTER", "INNER"]


def test_what_is_refused_stays_and_is_told():
    refused = []
    tree = transform_tree(
        compile(SOURCE, "sample.py", "exec"),
        refuse_inner,
        lambda code, error: refused.append((code.co_name, str(error))),
    )
    assert refused == [("inner", "outer.<locals>.inner at 4 is refused")]
    assert [code.co_name for code in walk(tree)] == ["<module>", "outer", "inner"]


# -- the hook's compile, exec and eval --------------------------------------------------------


@pytest.fixture
def seen():
    return []


@pytest.fixture
def hook(seen):
    def note(code):
        seen.append(code.co_name)
        return code

    return Hook(note)


def test_exec_and_eval_use_the_callers_scope(hook, seen):
    local = 3
    assert hook.eval("local + 1") == 4
    hook.exec("global made_by_exec\nmade_by_exec = local")
    assert made_by_exec == 3  # noqa: F821
    assert seen == ["<module>", "<module>"]
    assert hook.transformed == 2


def test_exec_and_eval_take_scopes(hook):
    scope = {"x": 2}
    assert hook.eval("  x + y", scope, {"y": 5}) == 7
    # By name, as CPython takes them since 3.13.
    assert hook.eval("x + y", globals=scope, locals={"y": 6}) == 8
    hook.exec("w = x", globals=scope, locals=scope)
    assert scope["w"] == 2
    hook.exec("z = x", scope)
    assert scope["z"] == 2


def test_exec_takes_a_code_object_as_it_is(hook, seen):
    scope = {}
    hook.exec(compile("x = 1", "f", "exec"), scope)
    assert scope["x"] == 1
    assert seen == []


def test_compile_inherits_futures_and_leaves_trees_alone(hook, seen):
    caller = compile(
        "from __future__ import annotations\n"
        "code = compile('def f(a: missing): pass', 'f', 'exec')",
        "f",
        "exec",
    )
    scope = {"compile": hook.compile}
    exec(caller, scope)
    exec(scope["code"], scope)
    assert scope["f"].__annotations__ == {"a": "missing"}
    # Some versions have a function for annotations that are text, too.
    assert [name for name in seen if name != "__annotate__"] == ["f", "<module>"]
    tree = hook.compile("1", "f", "eval", 0x400)  # PyCF_ONLY_AST
    assert type(tree).__name__ == "Expression"


def test_syntax_errors_are_those_of_the_builtins(hook):
    for call, builtin in ((hook.eval, eval), (hook.exec, exec)):
        with pytest.raises(SyntaxError) as ours:
            call("a b")
        with pytest.raises(SyntaxError) as theirs:
            builtin("a b")
        assert ours.value.args == theirs.value.args


def test_only_the_library_is_covered(hook):
    assert hook.covers(functools.__file__)
    assert not hook.covers(pytest.__file__)
    assert not hook.covers(roundtrip.__file__)


def test_the_default_transform_can_be_named():
    assert load_transform("bcspec.selftest.transform:roundtrip") is lift_and_lower


# -- CPython's tests ---------------------------------------------------------------------------

FAKES = '''
def refuse(code):
    raise NotImplementedError("everything is refused")

def spoil(code):
    """Make one test of test_dictcomps fail."""
    if code.co_name == "test_basics":
        return code.replace(co_consts=tuple(7 if c == 10 else c for c in code.co_consts))
    return code

def die(code):
    if code.co_name == "test_basics":
        import os
        os._exit(3)
    return code
'''


#: Some distributions ship the interpreter without its own tests.
needs_cpython_tests = pytest.mark.skipif(
    importlib.util.find_spec("test") is None
    or importlib.util.find_spec("test.test_dictcomps") is None,
    reason="this interpreter came without its test package",
)


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    (tmp_path / "fakes.py").write_text(FAKES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.processes
@needs_cpython_tests
def test_nothing_changed_is_nothing_different(capsys):
    transform = "bcspec.selftest.transform:identity"
    assert cpython.main(["test_dictcomps"], transform=transform) == 0
    out = capsys.readouterr().out
    assert re.search(r" (\d+) passed without, +\1 with bcspec", out)
    assert "differences: 0" in out
    assert "refused code objects: 0" in out


@pytest.mark.processes
@needs_cpython_tests
def test_a_spoilt_test_is_a_difference(fakes, capsys):
    assert cpython.main(["test_dictcomps"], transform="fakes:spoil") == 1
    out = capsys.readouterr().out
    assert "exit status 2" in out
    assert "DictComprehensionTest.test_basics: passed without, failure with bcspec" in out


@pytest.mark.processes
@needs_cpython_tests
def test_a_crash_is_a_difference(fakes, capsys):
    assert cpython.main(["test_dictcomps"], transform="fakes:die") == 1
    out = capsys.readouterr().out
    assert "exit status 3" in out
    assert re.search(r"test_dictcomps: \d+ tests did not run with bcspec, test.test_dictcomps", out)


@pytest.mark.processes
@needs_cpython_tests
def test_refusals_fail_the_selftest(fakes, capsys):
    assert cpython.main(["test_dictcomps"], transform="fakes:refuse", show=1) == 1
    out = capsys.readouterr().out
    assert "NotImplementedError: everything is refused" in out
    assert "nothing was put through bcspec" in out


@pytest.mark.processes
@needs_cpython_tests
def test_a_difference_can_be_expected(fakes, capsys, monkeypatch):
    expected = {"test.test_dictcomps.DictComprehensionTest.test_basics": "spoilt on purpose"}
    monkeypatch.setattr(cpython, "expected_differences", lambda: expected)
    assert cpython.main(["test_dictcomps"], transform="fakes:spoil") == 0
    assert "differences: 0" in capsys.readouterr().out


@pytest.mark.processes
def test_a_test_file_that_takes_too_long_is_given_up(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bcspec.selftest.hook._child", lambda *arguments: time.sleep(600))
    run_names(Hook(identity), tmp_path, ["slow", "slower"], 2, 0.2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["slow -9", "slower -9"]


def test_every_expected_difference_has_a_reason():
    differences = tomllib.loads(Path(cpython.__file__).with_name("differences.toml").read_text())
    for expected in differences.values():
        assert len(expected) <= 15
        assert all(reason.strip() for reason in expected.values())


@pytest.mark.processes
def test_a_name_that_does_not_exist_fails():
    transform = "bcspec.selftest.transform:identity"
    assert cpython.main(["test_no_such_thing"], transform=transform) == 1


# -- the command line ----------------------------------------------------------------------------


@pytest.mark.processes
def test_the_command_line_runs_a_round_trip(tmp_path):
    (tmp_path / "sample.py").write_text(SOURCE)
    done = subprocess.run(
        [sys.executable, "-m", "bcspec", "selftest", "roundtrip", "--jobs", "1", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 code objects in 1 files")
    assert "roundtrip: 1/1" in done.stderr
