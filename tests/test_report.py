"""What `bcspec.explain` says: each decision in words, with file and line."""

import contextlib
import re
import sys
import types

import pytest

import bcspec
from bcspec import Knowledge

SOURCE = """\
import contextlib

def helper(x):
    return x + 1

def refuses():
    import sys
    return sys._getframe()

def make(numbers, verbose, lock):
    def f(x):
        with lock:
            for number in numbers:
                x = helper(x) * number
        if verbose:
            print(x)
        refuses()
        return x, len(numbers)

    return f

def raises(x):
    return helper(x) + 1 // 0
"""


@pytest.fixture(scope="module")
def module():
    made = types.ModuleType("report_example")
    made.__file__ = "/somewhere/report_example.py"
    sys.modules[made.__name__] = made
    exec(compile(SOURCE, made.__file__, "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


@pytest.fixture(scope="module")
def text(module):
    f = module.make((2, 3), False, contextlib.nullcontext())
    return bcspec.explain(bcspec.partial_eval(f, strict=True))


def line_of(fragment):
    (number,) = [n for n, line in enumerate(SOURCE.splitlines(), 1) if fragment in line]
    return f"(report_example.py:{number})"


def section(text, title):
    """The lines under a heading."""
    found = re.search(rf"^{title}:\n((?:  .*\n?)*)", text, re.MULTILINE)
    return [line.strip() for line in found[1].splitlines()] if found else []


def test_the_first_line_says_which_function(text):
    assert text.splitlines()[0] == f"make.<locals>.f  {line_of('def f(x)')}"


def test_the_residual_reads_like_source(text):
    shown = text.split("\n\n")[1].splitlines()
    assert shown[0] == "def f(x):"
    assert shown[-1].strip().startswith("return (") and "2)" in shown[-1]
    assert not any("for " in line or "with " in line or "print" in line for line in shown)
    assert any("refuses()" in line for line in shown)


@pytest.mark.parametrize(
    ("title", "what", "where"),
    [
        ("unfolded", "helper", "helper(x) * number"),
        ("unfolded", "nullcontext.__enter__", "with lock"),
        ("declined", "refuses", "        refuses()"),
        ("removed", "", "if verbose"),
        ("unrolled", "", "for number in numbers"),
        ("folded", "len", "len(numbers)"),
    ],
)
def test_each_decision_has_its_place(text, title, what, where):
    lines = section(text, title)
    assert [line for line in lines if what in line and line_of(where) in line], (title, lines)


def test_repeated_decisions_are_counted(text):
    (line,) = [line for line in section(text, "unfolded") if line.startswith("helper")]
    assert line.endswith("x2")


def test_what_was_declined_has_its_reason(text):
    (line,) = section(text, "declined")
    assert "frames" in line


def test_assumptions_have_kind_and_reason(text):
    assumed = section(text, "assumed")
    assert "helper: watched, a definition in a module stays" in assumed
    for name in ("numbers", "verbose", "lock"):
        assert any(line.startswith(f"{name}: proved, ") for line in assumed)
    assert any(line.startswith("len: declared, ") for line in assumed)


def test_declared_knowledge_is_quoted(module):
    class Settings:
        verbose = False

        def __init__(self):
            self.level = 3

    settings = Settings()
    known = Knowledge(frozen_types={Settings: "read once at start"})

    def f():
        return settings.level

    text = bcspec.explain(bcspec.partial_eval(f, knowledge=known, strict=True))
    assert "level: declared, read once at start" in section(text, "assumed")


def test_a_folded_operation_that_raises_is_left(module):
    text = bcspec.explain(bcspec.partial_eval(module.raises, strict=True))
    assert "(1 // 0)" in text


def test_a_broken_assumption_is_said():
    def f(x):
        return x

    fast = bcspec.partial_eval(f, {"x": 1}, strict=True)
    assert "an assumption has broken" not in bcspec.explain(fast)
    bcspec.invalidate(fast)
    assert "an assumption has broken: the generic code runs" in bcspec.explain(fast)


def test_long_sections_are_cut():
    namespace = {f"h{n}": None for n in range(20)}
    source = "\n".join(f"def h{n}(x): return x" for n in range(20))
    source += "\ndef f(x):\n    return (" + ", ".join(f"h{n}(x)" for n in range(20)) + ")\n"
    module = types.ModuleType("report_long")
    sys.modules[module.__name__] = module
    exec(compile(source, "report_long.py", "exec"), vars(module))
    try:
        text = bcspec.explain(bcspec.partial_eval(module.f, strict=True))
    finally:
        del sys.modules[module.__name__]
    assert section(text, "unfolded")[-1] == "... and 8 more"


def test_nothing_to_say_is_left_out():
    def f(x):
        return x

    text = bcspec.explain(bcspec.partial_eval(f, strict=True))
    assert text.strip().endswith("return x")


def every_form(a, b, *args, c=1, **kwargs):
    values = [a, -b, not a, {"k": c}, (a,), a[b], a.attr, f"{a!r:>3}", a is b, a in args, a < b]
    a.attr = b
    a[b] = c
    del a[b]
    x, *y = args
    for item in kwargs:
        values.append(lambda: item)
    while a:
        a = a(b, *args, c=c, **kwargs)
    try:
        a.method(1, k=2)
    except ValueError as error:
        raise KeyError from error
    return values, a if a is None else b, x, y


def test_every_operation_has_a_notation():
    text = bcspec.explain(bcspec.partial_eval(every_form, strict=True))
    for part in ("a[b]", ".attr", "return (", "a.method(1, k=2)", "a is b", "a in args"):
        assert part in text
    assert "<object" not in text and "0x" not in text
