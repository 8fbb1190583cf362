"""Every code object under some roots through lift, lower and verify, in parallel.

The interpreter's own library and the packages beside it were not written with bcspec in mind, and
hold about every shape of bytecode that the compiler makes.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType

from .compare import differences, face_differences
from .progress import track
from .transform import Transform, describe, roundtrip, transform, walk


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong: `reason` groups, `detail` is the whole message."""

    reason: str
    detail: str
    function: str
    filename: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.filename}:{self.line}): {self.detail}"


@dataclass(slots=True)
class FileResult:
    """What came of one source file: how many code objects, what failed, why it did not compile."""

    path: str
    count: int = 0
    failures: list[Failure] = field(default_factory=list)
    uncompiled: str | None = None


def default_roots() -> list[Path]:
    """The running interpreter's standard library (with its tests) and its site-packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [Path(sysconfig.get_path(name)) for name in names]


def _of_another(path: Path, root: Path) -> bool:
    """Whether `path` lies in the site-packages inside `root`: in a virtual environment those of the
    base interpreter, which this one cannot import; otherwise a root themselves."""
    return "site-packages" in path.relative_to(root).parts[:-1]


def source_files(roots: Iterable[Path] | None = None) -> list[Path]:
    """The .py files to check, each once, largest first so that no late one holds up the end.

    Args:
        roots: files and directories; what the running interpreter can import by default.

    Raises:
        FileNotFoundError: a root does not exist.
    """
    found: dict[Path, int] = {}
    for root in default_roots() if roots is None else roots:
        root = root.resolve(strict=True)
        for path in [root] if root.is_file() else root.rglob("*.py"):
            if path.is_file() and not (roots is None and _of_another(path, root)):
                found[path.resolve()] = path.stat().st_size
    return sorted(found, key=lambda path: (-found[path], path))


def normalise(message: str) -> str:
    """`message` without what differs from one code object to the next, for grouping."""
    message = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", message)
    message = re.sub(r"[^\s(]*/[^\s(]*\.py[^\s)]*", "FILE", message)
    message = re.sub(r"<[^<>]*>", "<...>", message)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", message)[:160]


def reason_of(error: str, function: str) -> str:
    """`error` without the name of the function that it was found in, for grouping."""
    return normalise(re.sub(rf"(?<!\w){re.escape(function)}(?!\w)", "FUNCTION", error))


def check_code(code: CodeType, through: Transform) -> Iterator[Failure]:
    """Put one code object, without those nested in it, through `through`.

    Args:
        code: the code object.
        through: the stages, such as `bcspec.selftest.transform.roundtrip`.

    Returns:
        What went wrong, if anything.
    """
    where = (code.co_qualname, code.co_filename, code.co_firstlineno)
    try:
        new = through(code)
    except Exception as error:
        detail = describe(error)
        yield Failure(reason_of(detail, code.co_qualname), detail, *where)
        return
    compared = face_differences if through is transform else differences
    for difference in compared(code, new):
        yield Failure(difference.partition(":")[0], difference, *where)


def check_file(path: Path, through: Transform = roundtrip) -> FileResult:
    """Compile one file and check every code object in it."""
    result = FileResult(str(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outermost = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, OSError) as error:
        # `msg` of a syntax error is free of names and places.
        reason = getattr(error, "msg", None) or str(error)
        result.uncompiled = f"{type(error).__name__}: {normalise(str(reason))}"
        return result
    for code in walk(outermost):
        result.count += 1
        result.failures.extend(check_code(code, through))
    return result


def check_files(paths: list[Path], jobs: int, through: Transform) -> Iterator[FileResult]:
    """Check `paths` in `jobs` processes.

    Raises:
        BrokenProcessPool: a process died, which is a crash of the interpreter.
    """
    if jobs == 1:
        yield from (check_file(path, through) for path in paths)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(check_file, through=through), paths, chunksize=2)


def print_grouped(title: str, groups: dict[str, list[str]], show: int) -> None:
    """Print how many members each group has, largest first, with the first `show` of them."""
    print(f"{title}: {sum(map(len, groups.values()))}")
    for reason, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"  {len(members):6}  {reason}")
        for member in members[:show]:
            print(f"            {member}")


def main(
    roots: list[Path] | None = None,
    *,
    jobs: int | None = None,
    evaluate: bool = False,
    show: int = 3,
) -> int:
    """Check every code object under `roots` and print what was found.

    Args:
        roots: files and directories; the interpreter's own library by default.
        jobs: how many processes; the number of cores by default.
        evaluate: also evaluate, with no constants, between lift and lower.
        show: how many offenders to print for each reason.

    Returns:
        0 when all is well, 1 when anything failed, 2 when there was nothing to check.
    """
    started = time.perf_counter()
    try:
        paths = source_files(roots or None)
    except FileNotFoundError as error:
        print(f"roundtrip: {error}", file=sys.stderr)
        return 2
    jobs = jobs or os.cpu_count() or 1
    failures: dict[str, list[str]] = defaultdict(list)
    uncompiled: dict[str, list[str]] = defaultdict(list)
    bad: set[tuple[str, str, int]] = set()
    count = files = 0
    try:
        results = check_files(paths, jobs, transform if evaluate else roundtrip)
        for result in track(results, len(paths), "roundtrip"):
            files += 1
            count += result.count
            if result.uncompiled is not None:
                uncompiled[result.uncompiled].append(result.path)
            for failure in result.failures:
                failures[failure.reason].append(str(failure))
                bad.add((failure.filename, failure.function, failure.line))
    except BrokenProcessPool:
        failures["a process of the selftest died"].append(f"one of the files after {files}")
    seconds = time.perf_counter() - started
    stages = "lift, evaluate, lower and verify" if evaluate else "lift, lower and verify"
    print(f"{count} code objects in {files} files: {stages}, {seconds:.0f} s, {jobs} processes")
    print_grouped("files that do not compile", uncompiled, show)
    print_grouped(f"failures ({len(bad)} code objects)", failures, show)
    if not count:
        return 2
    return 1 if failures else 0
