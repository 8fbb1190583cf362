"""Say what bcspec finds on this machine, and what is turned off because of it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `ok` is None where it neither helps nor hurts."""

    name: str
    ok: bool | None
    text: str


_MARKS = {True: "ok", False: "!!", None: "--"}


def _interpreter() -> Iterator[Finding]:
    from ..errors import UnsupportedBytecode
    from ..lift import tables as lifting
    from ..lower import tables as lowering

    name = f"{platform.python_implementation()} {platform.python_version()}"
    try:
        lifting.current()
        lowering.current()
    except UnsupportedBytecode as error:
        yield Finding("interpreter", False, f"{name}: {error}; functions stay generic")
        return
    yield Finding("interpreter", True, name)


def _distribution(name: str, missing: str, required: bool) -> Iterator[Finding]:
    try:
        yield Finding(name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        yield Finding(name, False if required else None, f"not installed: {missing}")


def _bytecode() -> Iterator[Finding]:
    return _distribution("bytecode", "nothing can be specialised", required=True)


def _torch() -> Iterator[Finding]:
    return _distribution("torch", "bcspec.torch cannot be used", required=False)


def _rich() -> Iterator[Finding]:
    return _distribution("rich", "plain lines instead of progress bars", required=False)


def _compiler() -> Iterator[Finding]:
    candidates = [os.environ.get("CXX"), "g++", "clang++", "c++"]
    found = next((path for name in candidates if name and (path := shutil.which(name))), None)
    missing = "none found: torch.compile with Inductor on the CPU needs one"
    yield Finding("C++ compiler", True if found else None, found or missing)


def _switch() -> Iterator[Finding]:
    disabled = os.environ.get("BCSPEC_DISABLE") == "1"
    text = "BCSPEC_DISABLE=1: everything is turned off" if disabled else "not set"
    yield Finding("BCSPEC_DISABLE", not disabled, text)


#: Each gives the findings about one thing.
PROBES: tuple[Callable[[], Iterator[Finding]], ...] = (
    _interpreter,
    _bytecode,
    _switch,
    _torch,
    _compiler,
    _rich,
)


def examine() -> list[Finding]:
    """Every finding, in the order of the report."""
    return [finding for probe in PROBES for finding in probe()]


def _run(args: argparse.Namespace) -> int:
    findings = examine()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{_MARKS[finding.ok]}  {finding.name:{width}}  {finding.text}")
    return 1 if any(finding.ok is False for finding in findings) else 0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare `doctor`, which takes no arguments."""
    parser.set_defaults(run=_run)
