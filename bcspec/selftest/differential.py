"""Random programs, generic against residual: value, exception, effects and deaths have to agree."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import bcspec

from ..errors import BcspecError
from ..evaluate import reevaluate
from ..lower import lower
from ..verify import verify
from .random_programs import generate

#: Steps that a program may take; loops call `tick`.
STEPS = 300

#: How deep values are described.
_DEPTH = 4

NAME = "random_program"

#: Programs between two looks at the clock.
BATCH = 32


class TooLong(BaseException):
    """Ends a program that runs for too long; nothing in it catches this."""


def describe(value: Any, depth: int = 0) -> Any:
    """A value without identities, comparable between two runs."""
    kind = type(value)
    if kind in (int, float, str, bool, bytes, type(None)):
        return repr(value)
    if depth > _DEPTH:
        return kind.__name__
    if kind in (list, tuple):
        return (kind.__name__, [describe(item, depth + 1) for item in value])
    if kind is dict:
        return [(describe(k, depth + 1), describe(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, BaseException):
        return described_exception(value, depth)
    if isinstance(value, (FunctionType, type)):
        return (kind.__name__, value.__qualname__)
    inner = sorted(getattr(value, "__dict__", {}).items())
    return (kind.__qualname__, [(name, describe(part, depth + 1)) for name, part in inner])


def described_exception(error: BaseException | None, depth: int = 0) -> Any:
    """Type, arguments, cause and context."""
    if error is None or depth > _DEPTH:
        return None
    return (
        type(error).__qualname__,
        describe(error.args, depth + 1),
        described_exception(error.__cause__, depth + 1),
        described_exception(error.__context__, depth + 1),
    )


class NoProgram(Exception):
    """The text does not compile, or fails before its function is there."""


class Run:
    """One program in a module of its own.

    Args:
        source: as `generate` gives it.
    """

    def __init__(self, source: str) -> None:
        self.log: list[Any] = []
        self.steps = 0
        self.module = ModuleType(NAME)
        self.module.__dict__.update(log=self.note, died=self.died, tick=self.tick)
        sys.modules[NAME] = self.module
        try:
            exec(compile(source, f"<{NAME}>", "exec", dont_inherit=True), vars(self.module))
        except (Exception, TooLong) as error:
            raise NoProgram(str(error)) from error
        self.log.clear()

    def note(self, *values: Any) -> None:
        self.log.append(("log", *map(describe, values)))

    def died(self, name: str) -> None:
        self.log.append(("died", name))

    def tick(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise TooLong

    def outcomes(self, function: Any, fixed: dict[str, Any]) -> list[Any]:
        """What each of the calls gives, and what happened meanwhile.

        Args:
            function: the generic function, or a residual one that lacks its fixed parameters.
            fixed: values of the parameters that are passed here.
        """
        return [self.outcome(function, fixed, make) for make in self.module.calls]

    def outcome(self, function: Any, fixed: dict[str, Any], make: Any) -> Any:
        self.steps = 0
        self.log.append("call")
        args, rest, keywords = make()
        code = self.module.f.__code__
        given = iter(args)
        names = code.co_varnames[: code.co_argcount]
        lacking = self.module.constants.keys() - fixed.keys()
        positional = [
            fixed[name] if name in fixed else next(given) for name in names if name not in lacking
        ]
        del given
        try:
            result = function(*positional, *rest, **keywords)
            found: Any = ("value", describe(result))
            del result
        except TooLong:
            found = "too long"
        except Exception as error:
            found = ("raised", described_exception(error))
        references = [sys.getrefcount(each) for each in args if type(each) in (list, dict)]
        after = describe(args)
        del positional, args, rest, keywords
        effects = list(self.log)
        self.log.clear()
        return (found, effects, after, references)


def generic(source: str) -> list[Any]:
    run = Run(source)
    return run.outcomes(run.module.f, run.module.constants)


def residual(source: str) -> list[Any]:
    """The same, specialised for the constants and types of the program."""
    run = Run(source)
    module = run.module
    # What goes where after a fixed parameter is ambiguous when there is ``*args``, too.
    star = bool(module.f.__code__.co_flags & 0x04)
    fixed, passed = ({}, module.constants) if star else (module.constants, {})
    fast = bcspec.partial_eval(module.f, fixed, types=module.types, strict=True)
    return run.outcomes(fast, passed)


def oracle(source: str) -> list[Any]:
    """The same, evaluated with nothing constant and nothing assumed."""
    run = Run(source)
    code = lower(reevaluate(run.module.f.__code__))
    verify(code)
    run.module.f.__code__ = code
    return run.outcomes(run.module.f, run.module.constants)


#: What is compared with the generic run.
WAYS = {"residual": residual, "oracle": oracle}


def difference(source: str, way: str) -> str | None:
    """How a program differs, None if it does not.

    Raises:
        NoProgram: it is none.
        BcspecError: it cannot be specialised.
    """
    try:
        expected = generic(source)
        found = WAYS[way](source)
    except RecursionError as error:  # its values lead to themselves
        raise NoProgram(str(error)) from error
    for number, (one, two) in enumerate(zip(expected, found, strict=True)):
        if "too long" in (one[0], two[0]):
            return None
        for part, left, right in zip(("outcome", "effects", "arguments", "references"), one, two):
            if left != right:
                return f"call {number}, {part}:\n  generic  {left}\n  {way:8} {right}"
    return None


def shrunk(source: str, way: str) -> str:
    """The program without the lines that are not needed for it to differ."""
    lines = source.splitlines()
    size = max(1, len(lines) // 2)
    while size:
        start = 0
        while start < len(lines):
            candidate = lines[:start] + lines[start + size :]
            if still_differs("\n".join(candidate) + "\n", way):
                lines = candidate
            else:
                start += size
        size //= 2
    return "\n".join(lines) + "\n"


def still_differs(source: str, way: str) -> bool:
    try:
        return difference(source, way) is not None
    except Exception:  # what is left is no program any more
        return False


#: A program's seed, and for each way how it differs or why it was refused.
Checked = tuple[int, dict[str, str], dict[str, str]]


def check(seed: int) -> Checked | None:
    """One program: its seed, and for each way how it differs or why it was refused.

    None if the text is no program.
    """
    try:
        source = generate(Random(seed))
    except RecursionError:  # an expression that found no end
        return None
    differs: dict[str, str] = {}
    refused: dict[str, str] = {}
    for way in WAYS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                found = difference(source, way)
        except NoProgram:
            return None
        except BcspecError as error:
            refused[way] = str(error)
            continue
        if found is not None:
            differs[way] = found
    return seed, differs, refused


def checked_batches(seed: int, deadline: float, jobs: int) -> Iterator[Checked | None]:
    """Check programs from `seed` on until `deadline`, in `jobs` processes or, for one, in this."""
    with multiprocessing.Pool(jobs) if jobs > 1 else nullcontext() as pool:
        while time.monotonic() < deadline:
            batch = range(seed, seed + BATCH)
            seed += BATCH
            yield from map(check, batch) if pool is None else pool.imap_unordered(check, batch, 4)


def main(seconds: float, seed: int, jobs: int | None = None, show: int = 5) -> int:
    """Compare random programs for a while.

    Args:
        seconds: for how long.
        seed: of the first program; the next ones count up from it.
        jobs: processes; as many as there are cores by default.
        show: differences that are shown with their shrunk programs.

    Returns:
        0 when nothing differs, else 1.
    """
    # Why a program stays generic is told by whoever specialises one, not here.
    logging.getLogger("bcspec").setLevel(logging.ERROR)
    programs = 0
    differing: list[tuple[int, str, str]] = []
    refused: Counter[str] = Counter()
    deadline = time.monotonic() + seconds
    jobs = jobs or os.cpu_count() or 1
    for checked in filter(None, checked_batches(seed, deadline, jobs)):
        number, differs, refusals = checked
        programs += 1
        refused.update(refusals.keys())
        differing += [(number, way, text) for way, text in differs.items()]
    for number, way, text in sorted(differing)[:show]:
        print(f"seed {number}: {text}\n{shrunk(generate(Random(number)), way)}")
    print(
        f"random: {programs} programs, {len(differing)} differences,"
        f" {sum(refused.values())} refused"
    )
    return 1 if differing else 0
