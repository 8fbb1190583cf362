"""Data-driven tests of the evaluator: source, what is constant, expected residual.

A case in ``tests/ir/*.test`` has a name, Python source that defines ``f``, the constants of its
parameters, and the residual as `format_function` prints it.  Where a version's compiler makes
other code of the source, ``[residual 3.12]`` says what comes from that version on.
``BCSPEC_UPDATE_IR=1`` writes the residuals anew; read the difference before you keep it.
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
    r"(?:\[constants (?P<constants>.*?)\]\n)?(?P<residuals>\[residual.*?)(?=\n*\[case|\Z)",
    re.S,
)
_RESIDUAL = re.compile(
    r"\[residual(?: 3\.(?P<since>\d+))?\]\n(?P<text>.*?)(?=\n*\[residual|\Z)", re.S
)


def read_cases():
    for path in sorted(FOLDER.glob("*.test")):
        for match in _CASE.finditer(path.read_text()):
            yield pytest.param(path, match, id=f"{path.stem}:{match['name']}")


def expected(match: re.Match[str]) -> re.Match[str]:
    """The section for the running version: the last one that is not for a later version."""
    sections = _RESIDUAL.finditer(match["residuals"])
    return [s for s in sections if int(s["since"] or 0) <= sys.version_info[1]][-1]


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
        section = expected(match)
        start = match.start("residuals") - match.start()
        old = match[0]
        new = old[: start + section.start("text")] + found + old[start + section.end("text") :]
        path.write_text(text.replace(old, new).rstrip() + "\n")
    else:
        assert found == expected(match)["text"].strip()
