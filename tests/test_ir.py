"""Data-driven tests of the evaluator: source, what is constant, expected residual.

A case in ``tests/ir/*.test`` has a name, Python source that defines ``f``, the constants of its
parameters, and the residual as `format_function` prints it.  ``BCSPEC_UPDATE_IR=1`` writes the
residuals anew; read the difference before you keep it.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import types
from pathlib import Path

import pytest

from bcspec.ir import format_function
from tests.harness import residual_of

FOLDER = Path(__file__).with_name("ir")

_CASE = re.compile(
    r"\[case (?P<name>[\w-]+)\]\n(?P<source>.*?)"
    r"(?:\[constants (?P<constants>.*?)\]\n)?\[residual\]\n(?P<residual>.*?)(?=\n*\[case|\Z)",
    re.S,
)


def read_cases():
    for path in sorted(FOLDER.glob("*.test")):
        for match in _CASE.finditer(path.read_text()):
            yield pytest.param(path, match, id=f"{path.stem}:{match['name']}")


def residual_text(match: re.Match[str]) -> str:
    module = types.ModuleType("ir_case")
    sys.modules[module.__name__] = module
    try:
        exec(compile(match["source"], "<case>", "exec", dont_inherit=True), vars(module))
        constants = ast.literal_eval(match["constants"] or "{}")
        return format_function(residual_of(module.f, constants=constants)[0]).strip()
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize(("path", "match"), list(read_cases()))
def test_residual(path: Path, match: re.Match[str]):
    found = residual_text(match)
    if os.environ.get("BCSPEC_UPDATE_IR"):
        text = path.read_text()
        old = match[0]
        new = old[: match.start("residual") - match.start()] + found
        path.write_text(text.replace(old, new))
    else:
        assert found == match["residual"].strip()
