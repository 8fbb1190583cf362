"""Location tables that every reader decodes alike."""

import pytest

from bcspec.lower.linetable import encode, repaired

SAMPLES = {
    "short forms": "def f(a):\n    return a + 1",
    "columns past 127": "x = 1\ny = [" + "a, " * 60 + "b]\nz = 2\nw = 3",
    "columns past 255": "y = [" + "a, " * 120 + "b]\nz = (1,\n\n\n  q)",
    "lines that go back": "f(\n  a,\n  b,\n  c)\n" * 3,
    "far apart": "a\n" + "\n" * 5000 + "b",
    "handlers": "try:\n  f()\nexcept E as e:\n  g(e)\nfinally:\n  h()",
}


def lines_of(code):
    """The line of each code unit, by the reader that skips columns."""
    return [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]


def misleading(code):
    """`code` with the table that the one-line form makes of columns up to 255."""
    table = bytearray()
    previous = code.co_firstlineno
    for line, _, column, end in code.co_positions():
        assert line - previous in (0, 1, 2)
        table += bytes((0x80 | (10 + line - previous) << 3, column, end))
        previous = line
    return code.replace(co_linetable=bytes(table))


@pytest.mark.parametrize("source", SAMPLES.values(), ids=SAMPLES)
def test_encoding_gives_the_same_positions_and_lines(source):
    code = compile(source, "sample.py", "exec")
    again = code.replace(co_linetable=encode(code.co_positions(), code.co_firstlineno))
    assert list(again.co_positions()) == list(code.co_positions())
    assert lines_of(again) == lines_of(code)


def test_a_misleading_table_is_repaired():
    source = "def f(a, b):\n    y = [" + "a, " * 60 + "b]\n    z = 2\n    w = 3"
    code = compile(source, "sample.py", "exec").co_consts[0]
    bad = misleading(code)
    assert list(bad.co_positions()) == list(code.co_positions())
    assert lines_of(bad) != lines_of(code)
    assert lines_of(repaired(bad)) == lines_of(code)


def test_a_good_table_is_left_alone():
    code = compile(SAMPLES["short forms"], "sample.py", "exec")
    assert repaired(code) is code
