"""CPython's own tests, as they are and with every function put through bcspec.

Each named test file runs twice in processes of its own; what passes without must pass with.  A file
with a difference runs once more by itself, both ways, since some tests depend on how busy the
machine is.  Differences that are expected stand in `differences.toml`, each with its reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from .progress import track
from .roundtrip import print_grouped, reason_of

#: What the interpreter is held against when no names are given.
DEFAULT_NAMES = (
    "test_functools test_contextlib test_generators test_exceptions test_descr test_scope "
    "test_coroutines test_with test_patma test_dictcomps test_listcomps test_asyncgen "
    "test_unpack_ex test_extcall test_keywordonlyarg test_super test_except_star test_dataclasses"
).split()

#: Seconds after which the run of one test file is given up.
TIMEOUT = 1800.0

PASSED = "passed"

#: Exit statuses of the test runner where a file skips all of its tests: success, and "no tests ran".
NOT_FOR_THIS_MACHINE = ("0", "4")


def all_names() -> list[str]:
    """The names of all test files of this interpreter."""
    command = _python("test", "--list-tests")
    done = subprocess.run(
        command,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.split()


def expected_differences() -> dict[str, str]:
    """Tests of this version of Python that cannot pass with bcspec, and why."""
    table = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
    return table.get(sysconfig.get_python_version(), {})  # type: ignore[no-any-return]


@dataclass(slots=True)
class Run:
    """One run of one test file: status of each test, and how the process ended."""

    status: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    exit: str = "0"
    output: str = ""
    transformed: int = 0
    shared: int = 0
    refused: list[tuple[str, str, int, str]] = field(default_factory=list)

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(status == PASSED for status in self.status.values())


@dataclass(slots=True)
class Comparison:
    """Both runs of one test file."""

    name: str
    without: Run
    through: Run

    def problems(self, expected: Container[str] = ()) -> Iterator[str]:
        """What was well without bcspec and is not with it, but for the tests in `expected`."""
        runs = self.without.status
        if not runs and self.without.exit == self.through.exit in NOT_FOR_THIS_MACHINE:
            return
        if not runs:
            yield f"{self.name}: no tests ran without bcspec ({_last_line(self.without)})"
        differ = [test for test in runs if self.through.status.get(test, runs[test]) != runs[test]]
        unexpected = [test for test in differ if test not in expected]
        explained = len(differ) > len(unexpected)
        if self.without.exit == "0" != self.through.exit and not explained:
            yield f"{self.name}: exit status {self.through.exit} ({_last_line(self.through)})"
        if not self.through.transformed:
            yield f"{self.name}: nothing was put through bcspec"
        missing = runs.keys() - self.through.status.keys()
        if missing:
            yield f"{self.name}: {len(missing)} tests did not run with bcspec, {min(missing)} first"
        for test in unexpected:
            detail = self.through.details.get(test, "").strip().rpartition("\n")[2]
            now = self.through.status[test]
            yield f"{test}: {runs[test]} without, {now} with bcspec  {detail}".rstrip()


def _last_line(run: Run) -> str:
    return run.output.strip().rpartition("\n")[2]


def read_results(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Status and details of each test in a JUnit file.

    Args:
        path: what the test runner wrote; may be missing when it crashed.

    Returns:
        Test name to status, test name to the text of its failure.
    """
    status: dict[str, str] = {}
    details: dict[str, str] = {}
    if not path.exists():
        return status, details
    seen: Counter[str] = Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "")
        seen[name] += 1
        if seen[name] > 1:  # sub-tests, and tests that share a name
            name = f"{name} #{seen[name]}"
        outcome = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        status[name] = outcome.tag if outcome is not None else "skipped" if skipped else PASSED
        if outcome is not None:
            details[name] = outcome.text or ""
    return status, details


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


def _python(*arguments: str) -> list[str]:
    # Frozen modules would not pass through a loader that can be hooked.
    return [sys.executable, "-X", "frozen_modules=off", "-m", *arguments]


def run_without(name: str) -> Run:
    """Run one test file of CPython in a process of its own, as it is."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        try:
            done = subprocess.run(
                _python("test", "--junit-xml", str(results), name),
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Run(exit=f"none after {TIMEOUT:.0f} s")
        return Run(*read_results(results), exit=str(done.returncode), output=done.stdout)


def _read_run(folder: Path, name: str, status: str) -> Run:
    """What the hooked process left in `folder` about one test file."""
    log, report = folder / f"{name}.log", folder / f"{name}.json"
    run = Run(*read_results(folder / f"{name}.xml"), exit=status)
    if log.exists():
        run.output = log.read_text(errors="replace")
    if report.exists():
        told = json.loads(report.read_text())
        run.transformed, run.shared = told["transformed"], told["shared"]
        run.refused = [tuple(entry) for entry in told["refused"]]
    return run


def run_through(names: list[str], transform: str, jobs: int) -> Iterator[tuple[str, Run]]:
    """Run test files with every function put through a transform, as they end.

    Args:
        names: such as ``test_functools``.
        transform: what each code object goes through, as ``module:function``.
        jobs: how many at a time.

    Returns:
        Name and run; a file that the hooked process did not come to has exit ``none``.
    """
    missing = dict.fromkeys(names)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        process = subprocess.Popen(
            _python(
                "bcspec.selftest.hook", temporary, transform, str(jobs), str(TIMEOUT), *missing
            ),
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        watchdog = None
        try:
            while True:
                # Each file has as long; the first one as long again, for what all of them share.
                # Ends the process, not its output: reading goes on until both are gone.
                watchdog = threading.Timer(2 * TIMEOUT, process.kill)
                watchdog.start()
                line = process.stdout.readline()
                watchdog.cancel()
                if not line:
                    break
                name, _, status = line.rstrip().partition(" ")
                if name in missing:
                    del missing[name]
                    yield name, _read_run(folder, name, status)
        finally:
            if watchdog is not None:
                watchdog.cancel()
            process.kill()
            process.wait()
        for name in missing:
            yield name, Run(exit=f"none, the hooked process ended with {process.returncode}")


def compare(names: list[str], transform: str, jobs: int) -> Iterator[Comparison]:
    """Run each file without and with the transform, `jobs` processes at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        without = {name: pool.submit(run_without, name) for name in names}
        for name, through in run_through(names, transform, jobs):
            yield Comparison(name, without[name].result(), through)


def compare_again(
    results: Iterator[Comparison], transform: str, expected: Container[str]
) -> Iterator[Comparison]:
    """Let files with differences run once more, when all others are through."""
    unsure: list[str] = []
    for result in results:
        if any(result.problems(expected)):
            unsure.append(result.name)
        else:
            yield result
    for name in unsure:
        yield from compare([name], transform, 1)


def main(names: list[str], *, transform: str, show: int = 3, jobs: int | None = None) -> int:
    """Compare the named test files and print what differs.

    Args:
        names: test files; `DEFAULT_NAMES` when empty.
        transform: what each code object goes through, as ``module:function``.
        show: how many refused functions to print for each reason.
        jobs: how many processes at a time; the number of cores by default.

    Returns:
        0 when everything that passes without passes with bcspec and nothing was refused, else 1.
    """
    started = time.perf_counter()
    names = names or list(DEFAULT_NAMES)
    expected = expected_differences()
    results = compare(names, transform, jobs or os.cpu_count() or 1)
    results = compare_again(results, transform, expected)
    problems: list[str] = []
    refused: dict[str, list[str]] = defaultdict(list)
    passed = shared = own = 0
    for result in track(results, len(names), "cpython"):
        passed += result.through.passed
        shared = max(shared, result.through.shared)
        own += result.through.transformed - result.through.shared
        problems.extend(result.problems(expected))
        counts = f"{result.without.passed:5} passed without, {result.through.passed:5} with bcspec"
        print(f"{result.name:24} {counts}, {result.through.transformed} code objects", flush=True)
        for function, filename, line, error in result.through.refused:
            reason = reason_of(error, function)
            offender = f"{function} ({filename}:{line}): {error}"
            if offender not in refused[reason]:
                refused[reason].append(offender)
    seconds = time.perf_counter() - started
    print(
        f"{passed} tests passed in {len(names)} files with {transform}, "
        f"{shared + own} code objects, {seconds:.0f} s"
    )
    print_grouped("refused code objects", refused, show)
    print(f"differences: {len(problems)}")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems or refused else 0
