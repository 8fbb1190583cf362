"""Unknown interpreters, numbers and instructions: the original function, and one clear reason."""

from __future__ import annotations

import importlib.util
import logging
import sys

import pytest

import bcspec
from bcspec import interpreter
from bcspec.lift import tables
from bcspec.lower.tables import TABLES as LOWERING
from bcspec.selftest import opcodes
from bcspec.verify.tables import TABLES as VERIFYING


def another_version(monkeypatch):
    monkeypatch.setattr(interpreter, "MAGIC_NUMBERS", {(3, 0): 3131})
    return "cpython 3.", "is not supported"


def another_implementation(monkeypatch):
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    return "pypy 3.", "is not supported"


def another_number(monkeypatch):
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", (4242).to_bytes(2, "little") + b"\r\n")
    known = interpreter.MAGIC_NUMBERS[sys.version_info[:2]]
    return "has bytecode number 4242", f"bcspec knows {known}"


def another_instruction(monkeypatch):
    table = tables.current()
    changed = {name: rule for name, rule in table.LIFT.items() if name != "BINARY_OP"}
    monkeypatch.setattr(table, "LIFT", changed)
    return "instruction BINARY_OP in ", "cannot be lifted"


UNKNOWN = [another_version, another_implementation, another_number, another_instruction]


@pytest.fixture(params=UNKNOWN, ids=lambda change: change.__name__)
def reason(request, monkeypatch):
    """What the reason has to say, while something is unknown."""
    return request.param(monkeypatch)


def fresh():
    """A function whose code nothing has seen."""
    space = {}
    exec("def f(a, b):\n    return a + b * 2", space)
    return space["f"]


def test_the_function_stays_as_it_was(reason, caplog):
    f = fresh()
    code = f.__code__
    with caplog.at_level(logging.INFO, "bcspec"):
        fast = bcspec.partial_eval(f)
    assert fast is f and f.__code__ is code and f(1, 2) == 5
    (record,) = caplog.records
    assert all(part in record.getMessage() for part in reason)


def test_the_reason_is_raised_where_asked_for(reason):
    with pytest.raises(bcspec.SpecializationError) as caught:
        bcspec.partial_eval(fresh(), strict=True)
    assert all(part in str(caught.value) for part in reason)


def test_a_factory_gives_what_it_always_gave(reason):
    @bcspec.specialize
    def make(n):
        return lambda x: x + n

    assert make(3)(4) == 7


def test_every_version_has_all_three_tables():
    assert tables.TABLES.keys() == LOWERING.keys() == VERIFYING.keys()
    assert interpreter.MAGIC_NUMBERS.keys() == LOWERING.keys()


def test_the_tables_fit_the_running_interpreter(capsys):
    assert opcodes.main() == 0
    assert "as the tables say" in capsys.readouterr().out


def test_another_version_does_not_fit(capsys):
    other = (3, 12) if sys.version_info[:2] == (3, 11) else (3, 11)
    assert opcodes.main(other) == 1
    out = capsys.readouterr().out
    assert "instructions that are gone:" in out
    assert "instructions that are new:" in out
    assert "not as the tables say" in out
