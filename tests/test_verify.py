"""The bytecode verifier: what it accepts, what it refuses and why, and that this keeps us safe."""

from __future__ import annotations

import collections
import dataclasses
import opcode
import os
import pathlib
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest
import verify_samples
from verify_mutants import encode_entry, inside
from verify_refused import HANDLER, REFUSED, RETURN, Instruction, body

from bcspec.errors import VerificationError
from bcspec.verify import missing_lines, verify
from bcspec.verify.prepare import Prepared, cache_entries
from bcspec.verify.tables import TABLES

TABLE = TABLES.get(sys.version_info[:2])
pytestmark = pytest.mark.skipif(TABLE is None, reason="no table for this version of CPython")

CACHES = cache_entries()
STDLIB = pathlib.Path(sysconfig.get_path("stdlib"))


def every(code: CodeType) -> Iterator[CodeType]:
    """The code object and all those inside it."""
    return (way[-1] for way in inside(code))


# -- accepted ------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", verify_samples.SAMPLES, ids=lambda sample: sample.__name__)
def test_accepts_what_the_compiler_makes(sample: Any) -> None:
    assert sample() is not None
    for code in every(sample.__code__):
        verify(code)


@pytest.mark.parametrize(
    "part",
    ["asyncio", "email", "unittest", "concurrent"]
    + [f"test/test_{name}.py" for name in "patma grammar except_star coroutines asyncgen".split()],
)
def test_accepts_the_standard_library(part: str) -> None:
    root = STDLIB / part
    if not root.exists():
        pytest.skip("this interpreter came without its test package")
    seen = 0
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        for code in every(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)):
            verify(code)
            seen += 1
    assert seen > 10


def test_accepts_other_ways_to_compile() -> None:
    for source, mode in [("1 + x", "eval"), ("x = 1", "single"), ("from a import *", "exec")]:
        verify(compile(source, "<test>", mode))
    for level in (0, 1, 2):
        verify(compile("def f():\n 'doc'\n assert x", "<test>", "exec", optimize=level))


def test_accepts_long_arguments() -> None:
    names = ", ".join(f"n{i}" for i in range(400))
    lines = [f"def f({names}):", f"    x = [{names}]", *(f"    n{i} += g{i}" for i in range(400))]
    lines += ["    while x:", *(f"        n{i} = h(n{i}, *x)" for i in range(400))]
    lines += [f"    return h({names})"]
    for code in every(compile("\n".join(lines), "<test>", "exec")):
        verify(code)


# -- refused -------------------------------------------------------------------------------


def assemble(instructions: list[Instruction], **fields: Any) -> CodeType:
    """A function of one argument from bare instructions; inline caches are added.

    ``entries`` gives exception-table entries in instruction numbers: (first, end, target, depth,
    lasti).
    """
    raw, starts = bytearray(), []
    for name, arg in instructions:
        starts.append(len(raw) // 2)
        raw += bytes((opcode.opmap[name], arg))
        raw += bytes(2 * CACHES[opcode.opmap[name]])
    starts.append(len(raw) // 2)
    table = bytearray()
    for first, end, target, depth, lasti in fields.pop("entries", ()):
        start, size = starts[first], starts[end] - starts[first]
        table += encode_entry([start, size, starts[target], depth << 1 | lasti])
    line_table = bytearray()
    for at in range(0, len(raw) // 2, 8):
        line_table += bytes((0x80 | 13 << 3 | min(8, len(raw) // 2 - at) - 1, 0))

    def template(a):
        return a

    return template.__code__.replace(
        **{
            "co_code": bytes(raw),
            "co_consts": (None, ("k",), template.__code__, 1, True),
            "co_names": ("name",),
            "co_stacksize": 4,
            "co_exceptiontable": bytes(table),
            "co_linetable": bytes(line_table),
            **fields,
        }
    )


@pytest.mark.parametrize("title, instructions, fields, reason", REFUSED, ids=lambda v: str(v)[:20])
def test_refuses(
    title: str, instructions: list[Instruction], fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(VerificationError, match=re.escape(reason)):
        verify(assemble(instructions, **fields))


def test_the_frame_around_refused_code_is_sound() -> None:
    """What `assemble` adds is not what is refused."""
    verify(assemble(body(*RETURN)))
    verify(assemble(body(*RETURN, *HANDLER), entries=[(0, 2, 3, 0, 0)]))
    verify(assemble([("RETURN_GENERATOR", 0), ("POP_TOP", 0), *body(*RETURN)], co_flags=0x23))
    verify(assemble([("MAKE_CELL", 0), *body("LOAD_DEREF 0", "RETURN_VALUE")], co_cellvars=("a",)))


def test_a_range_may_begin_between_an_instruction_and_its_prefix() -> None:
    """The interpreter looks ranges up by the instruction itself."""
    instructions = body("EXTENDED_ARG 0", *RETURN, *HANDLER)
    verify(assemble(instructions, entries=[(2, 4, 4, 0, 0)]))
    with pytest.raises(VerificationError, match="depth 0 is below its handler's 1"):
        verify(assemble(instructions, entries=[(2, 4, 4, 1, 0)]))
    with pytest.raises(VerificationError, match="bad range"):  # covers the prefix alone
        verify(assemble(instructions, entries=[(1, 2, 4, 0, 0)]))


def test_the_error_says_where() -> None:
    code = assemble(body("NOP", "LOAD_FAST 0", "POP_TOP", "UNARY_NEGATIVE", *RETURN))
    with pytest.raises(VerificationError) as caught:
        verify(code)
    text = str(caught.value)
    assert code.co_qualname in text
    assert code.co_filename in text
    assert f"line {code.co_firstlineno}" in text
    assert "offset 8, UNARY_NEGATIVE 0: pops 1 of 0 stack slots" in text


def test_a_comprehension_needs_an_iterator() -> None:
    def function(x):
        return list(y for y in x)

    raw = bytearray(function.__code__.co_code)
    get_iter = raw[::2].index(opcode.opmap["GET_ITER"]) * 2
    raw[get_iter] = opcode.opmap["NOP"]
    with pytest.raises(VerificationError, match="called without an iterator"):
        verify(function.__code__.replace(co_code=bytes(raw)))


# -- unchecked reads -----------------------------------------------------------------------


def definite(a):
    if a:
        b = 1
    else:
        b = 2
    return a, b


def conditional(a):
    if a:
        b = 1
    return b


def deleted(a):
    b = a
    del b
    return b  # noqa: F821


def in_a_handler(a):
    try:
        b = a()
    except ValueError:
        return b
    return b


def without_checks(code: CodeType) -> CodeType:
    """Every read of a local as one without a check."""
    checked, plain = opcode.opmap.get("LOAD_FAST_CHECK"), opcode.opmap["LOAD_FAST"]
    raw = bytearray(code.co_code)
    raw[::2] = bytes(plain if op == checked else op for op in raw[::2])
    return code.replace(co_code=bytes(raw))


@pytest.mark.parametrize(
    "function, unbound",
    [(definite, None), (conditional, "b"), (deleted, "b"), (in_a_handler, "b")],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_unchecked_reads_need_a_bound_local(function: Any, unbound: str | None) -> None:
    """Where a version reads locals without a check, they must be bound on every path."""
    assert TABLE is not None
    table = dataclasses.replace(TABLE, unchecked=frozenset({"LOAD_FAST"}))
    code = without_checks(function.__code__)
    if unbound is None:
        verify(code, prepared=Prepared(table))
    else:
        with pytest.raises(VerificationError, match=f"local '{unbound}' may be unbound"):
            verify(code, prepared=Prepared(table))


# -- lines -----------------------------------------------------------------------------------


def test_missing_lines() -> None:
    def function(a):
        return a.name

    code = function.__code__
    assert missing_lines(code) == []
    units = len(code.co_code) // 2
    entries = [min(8, units - at) for at in range(0, units, 8)]
    nameless = code.replace(co_linetable=bytes(0x80 | 15 << 3 | size - 1 for size in entries))
    verify(nameless)
    checks = {"LOAD_FAST"} - TABLE.unchecked if TABLE is not None else set()
    raising = {"RESUME", "LOAD_ATTR", *checks}
    assert {opcode.opname[code.co_code[at]] for at in missing_lines(nameless)} == raising


# -- mutants -----------------------------------------------------------------------------------

#: Of each kind of damage, the least share that must be refused.  The rest is harmless damage:
#: another constant, another operator, another line.
LEAST_REFUSED = {
    "other_opcode": 0.85,
    "dropped": 0.8,
    "exchanged": 0.65,
    "argument": 0.75,
    "jump": 0.8,
    "null": 0.95,
    "handler": 0.35,
    "table_bytes": 0.8,
    "line_bytes": 0.35,
    "stacksize": 1.0,
    "flags": 0.6,
}


def judged(seed: int, count: int) -> Iterator[list[str]]:
    """Run the mutants in processes; a new one goes on where an endless loop ended the last."""
    here = pathlib.Path(__file__).parent
    paths = os.pathsep.join(map(str, (here.parent, here)))
    skip = 0
    while True:
        done = subprocess.run(
            [sys.executable, here / "verify_mutants.py", str(seed), str(count), str(skip), "9"],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
        lines = [line.split() for line in done.stdout.splitlines()]
        yield from lines
        if done.returncode == 0:
            return
        what = f"{lines[-1:]} ended with {done.returncode}: {done.stderr}"
        assert done.returncode == -signal.SIGPROF, what
        skip = int(lines[-1][0]) + 1


@pytest.mark.processes
def test_accepted_mutants_do_not_crash(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts: collections.Counter[tuple[str, str]] = collections.Counter()
    for _, kind, verdict, *_ in judged(seed=311, count=2640):
        verdicts[kind, verdict] += 1
    with capsys.disabled():
        print()
        for kind, least in LEAST_REFUSED.items():
            refused, accepted = verdicts[kind, "rejected"], verdicts[kind, "accepted"]
            share = refused / (refused + accepted)
            print(f"  {kind:14} {refused + accepted:5} mutants, {share:6.1%} refused")
            assert share >= least, kind
    assert sum(verdicts.values()) > 2000
