"""Random programs behave the same, generic and residual; the comparison notices when they do not."""

from random import Random

import pytest

from bcspec.selftest import differential
from bcspec.selftest.random_programs import generate

SEEDS = 120


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_nothing_differs(first):
    checked = [differential.check(seed) for seed in range(first, first + 20)]
    programs = [each for each in checked if each is not None]
    assert len(programs) > 3
    assert [each[:2] for each in programs if each[1]] == []


def test_a_seed_gives_the_same_program():
    assert generate(Random(3)) == generate(Random(3)) != generate(Random(4))


PROGRAM = """
def f(a):
    log("begin")
    x = Obj("o")
    del x
    log("end")
    return a
class Obj:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        died(self.name)
constants = {}
types = {}
calls = [lambda: ([1], (), {})]
"""


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("return a", "return 2"), "outcome"),
        (("return a", "raise ValueError"), "outcome"),
        (('    log("end")\n', ""), "effects"),
        (("    del x\n", ""), "effects"),
    ],
)
def test_differences_are_noticed(monkeypatch, change, part):
    def other(source):
        return differential.generic(source.replace(*change))

    monkeypatch.setitem(differential.WAYS, "residual", other)
    assert part in differential.difference(PROGRAM, "residual")
    assert differential.difference(PROGRAM, "oracle") is None


def test_a_difference_is_shrunk(monkeypatch):
    def other(source):
        return differential.generic(source.replace("return a", "return 2"))

    monkeypatch.setitem(differential.WAYS, "residual", other)
    small = differential.shrunk(PROGRAM, "residual")
    assert "return a" in small and "log" not in small and "class" not in small


def test_the_command_line(capsys):
    assert differential.main(seconds=2, seed=0, jobs=1) == 0
    assert "0 differences" in capsys.readouterr().out
