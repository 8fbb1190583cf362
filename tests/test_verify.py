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
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest
import verify_samples
from verify_mutants import encode_entry, inside

from bcspec.errors import VerificationError
from bcspec.verify import missing_lines, verify
from bcspec.verify.prepare import Prepared, cache_entries
from bcspec.verify.tables import TABLES

TABLE = TABLES.get(sys.version_info[:2])
pytestmark = pytest.mark.skipif(TABLE is None, reason="no table for this version of CPython")

CACHES = cache_entries()
STDLIB = pathlib.Path(os.__file__).parent


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

Instruction = tuple[str, int]


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
            "co_consts": (None, ("k",), template.__code__, 1),
            "co_names": ("name",),
            "co_stacksize": 4,
            "co_exceptiontable": bytes(table),
            "co_linetable": bytes(line_table),
            **fields,
        }
    )


def body(*text: str) -> list[Instruction]:
    """Instructions from "NAME arg" lines, after RESUME."""
    words = [line.split() for line in ("RESUME 0", *text)]
    return [(name, int(arg[0]) if arg else 0) for name, *arg in words]


RETURN = ("LOAD_FAST 0", "RETURN_VALUE")
HANDLER = ("PUSH_EXC_INFO", "POP_TOP", "POP_EXCEPT", *RETURN)

#: Title, instructions, fields of the code object, what the error says.
REFUSED: list[tuple[str, list[Instruction], dict[str, Any], str]] = [
    ("underflow", body("POP_TOP", *RETURN), {}, "pops 1 of 0"),
    ("overflow", body(*RETURN), {"co_stacksize": 0}, "depth 1 exceeds co_stacksize 0"),
    ("leftovers", body("LOAD_FAST 0", *RETURN), {}, "returns with 2"),
    ("falls off", body("LOAD_FAST 0"), {}, "falls off the end"),
    ("const", body("LOAD_CONST 4", "RETURN_VALUE"), {}, "co_consts index 4 is out of range"),
    ("name", body("LOAD_NAME 1", "RETURN_VALUE"), {}, "co_names index 1 is out of range"),
    ("global", body("LOAD_GLOBAL 2", "RETURN_VALUE"), {}, "co_names index above a flag bit 2"),
    ("local", body("LOAD_FAST 1", "RETURN_VALUE"), {}, "plain local 1 is out of range"),
    ("cell as local", [("MAKE_CELL", 0), *body(*RETURN)], {"co_cellvars": ("a",)},
     "slot 0 is not a plain local"),
    ("local as cell", body("LOAD_DEREF 0", "RETURN_VALUE"), {}, "slot 0 is not a cell or free"),
    ("no cell yet", body("LOAD_DEREF 0", "RETURN_VALUE"), {"co_cellvars": ("a",)},
     "before it holds a cell"),
    ("two cells", [("MAKE_CELL", 0), ("MAKE_CELL", 0), *body("LOAD_CONST 0", "RETURN_VALUE")],
     {"co_cellvars": ("a",)}, "already holds a cell"),
    ("no free variables", body(*RETURN), {"co_freevars": ("b",)}, "no COPY_FREE_VARS"),
    ("free variables", [("COPY_FREE_VARS", 2), *body(*RETURN)], {"co_freevars": ("b",)},
     "copies 2 of 1"),
    ("no RESUME", [("LOAD_FAST", 0), ("RETURN_VALUE", 0)], {}, "no RESUME"),
    ("early", [("LOAD_FAST", 0), *body("RETURN_VALUE")], {}, "not allowed before RESUME"),
    ("late", body("RETURN_GENERATOR", "RETURN_VALUE"), {}, "not allowed after RESUME"),
    ("operator", body("LOAD_FAST 0", "COPY 1", "BINARY_OP 26", "RETURN_VALUE"), {}, "argument 26"),
    ("comparison", body("LOAD_FAST 0", "COPY 1", "COMPARE_OP 6", "RETURN_VALUE"), {}, "argument 6"),
    ("swap 1", body("LOAD_FAST 0", "SWAP 1", "RETURN_VALUE"), {}, "1 is out of range"),
    ("copy 0", body("LOAD_FAST 0", "COPY 0", "RETURN_VALUE"), {}, "0 is out of range"),
    ("deep copy", body("LOAD_FAST 0", "COPY 2", "RETURN_VALUE"), {}, "looks at 2 of 1"),
    ("jump out", body("JUMP_FORWARD 9", *RETURN), {}, "where no instruction begins"),
    ("jump into caches", body("JUMP_FORWARD 3", "LOAD_FAST 0", "LOAD_ATTR 0", "RETURN_VALUE"), {},
     "where no instruction begins"),
    ("jump past EXTENDED_ARG",
     body("JUMP_FORWARD 1", "EXTENDED_ARG 0", "LOAD_FAST 0", "RETURN_VALUE"), {},
     "where no instruction begins"),
    ("jump to prologue", [("NOP", 0), *body("JUMP_BACKWARD 3")], {}, "leads into the prologue"),
    ("last EXTENDED_ARG", body("EXTENDED_ARG 1"), {}, "not an instruction"),
    ("stray cache", body("CACHE", *RETURN), {}, "not an instruction"),
    ("depths", body("LOAD_FAST 0", "POP_JUMP_FORWARD_IF_TRUE 1", "LOAD_FAST 0", *RETURN), {},
     "stack depth 1, another path with 0"),
    ("depth in a loop", body("LOAD_FAST 0", "JUMP_BACKWARD 2"), {}, "stack depth 1, another path"),
    ("NULL popped", body("PUSH_NULL", "POP_TOP", *RETURN), {}, "uses what is NULL"),
    ("NULL copied", body("PUSH_NULL", "COPY 1", "RETURN_VALUE"), {}, "is NULL, not an object"),
    ("NULL stored", body("PUSH_NULL", "STORE_FAST 0", *RETURN), {}, "uses what is NULL"),
    ("NULL returned", body("PUSH_NULL", "RETURN_VALUE"), {}, "uses what is NULL"),
    ("method popped", body("LOAD_FAST 0", "LOAD_METHOD 0", "SWAP 2", "POP_TOP", "RETURN_VALUE"), {},
     "uses what is possibly NULL"),
    ("NULL called", body("LOAD_FAST 0", "PUSH_NULL", "PRECALL 0", "CALL 0", "RETURN_VALUE"), {},
     "slot 1 from the top is NULL"),
    ("NULL passed", body("PUSH_NULL", "LOAD_FAST 0", "PUSH_NULL", "PRECALL 1", "CALL 1",
                         "RETURN_VALUE"), {}, "slot 1 from the top is NULL"),
    ("NULL on one path",
     body("LOAD_FAST 0", "POP_JUMP_FORWARD_IF_TRUE 2", "PUSH_NULL", "JUMP_FORWARD 1",
          "LOAD_FAST 0", "RETURN_VALUE"), {}, "as an object"),
    ("no NULL", body("LOAD_FAST 0", "LOAD_FAST 0", "BUILD_TUPLE 0", "CALL_FUNCTION_EX 0",
                     "RETURN_VALUE"), {}, "slot 3 from the top is an object, not NULL"),
    ("precall", body("PUSH_NULL", "LOAD_FAST 0", "PRECALL 0", "NOP", "CALL 0", "RETURN_VALUE"), {},
     "must be followed by CALL"),
    ("precall's count", body("PUSH_NULL", "LOAD_FAST 0", "PRECALL 1", "CALL 0", "RETURN_VALUE"), {},
     "must be followed by CALL with the same"),
    ("keywords", body("PUSH_NULL", "LOAD_FAST 0", "KW_NAMES 1", "PRECALL 0", "CALL 0",
                      "RETURN_VALUE"), {}, "1 keywords for 0 arguments"),
    ("keyword names", body("PUSH_NULL", "LOAD_FAST 0", "COPY 1", "KW_NAMES 0", "PRECALL 1",
                           "CALL 1", "RETURN_VALUE"), {}, "not a tuple of names"),
    ("keywords dropped", body("KW_NAMES 1", *RETURN), {}, "must be followed by the call"),
    ("list", body("LOAD_FAST 0", "COPY 1", "LIST_APPEND 1", "RETURN_VALUE"), {}, "not a list"),
    ("dict", body("LOAD_FAST 0", "COPY 1", "COPY 1", "MAP_ADD 1", "RETURN_VALUE"), {},
     "not a dict"),
    ("set", body("LOAD_FAST 0", "COPY 1", "SET_ADD 1", "RETURN_VALUE"), {}, "not a set"),
    ("key tuple", body("LOAD_FAST 0", "COPY 1", "BUILD_CONST_KEY_MAP 1", "RETURN_VALUE"), {},
     "not a tuple"),
    ("key count", body("LOAD_FAST 0", "COPY 1", "LOAD_CONST 1", "BUILD_CONST_KEY_MAP 2",
                       "RETURN_VALUE"), {}, "keys are not known to be 2"),
    ("iterator", body("LOAD_FAST 0", "FOR_ITER 2", "POP_TOP", "JUMP_BACKWARD 3", *RETURN), {},
     "not an iterator"),
    ("code", body("LOAD_CONST 0", "MAKE_FUNCTION 0", "RETURN_VALUE"), {}, "not a code object"),
    ("closure", body("LOAD_FAST 0", "BUILD_TUPLE 1", "LOAD_CONST 2", "MAKE_FUNCTION 8",
                     "RETURN_VALUE"), {}, "not a tuple of cells"),
    ("closure's length",
     [("MAKE_CELL", 0), *body("LOAD_CLOSURE 0", "BUILD_TUPLE 1", "LOAD_CONST 2", "MAKE_FUNCTION 8",
                              "RETURN_VALUE")], {"co_cellvars": ("a",)}, "1 cells for 0 free"),
    ("annotations", body("LOAD_CONST 1", "LOAD_CONST 2", "MAKE_FUNCTION 4", "RETURN_VALUE"), {},
     "not known to be pairs"),
    ("reraise", body("LOAD_FAST 0", "RERAISE 0"), {}, "not an exception"),
    ("reraise's lasti", body(*RETURN, "LOAD_FAST 0", "SWAP 2", "RERAISE 1"),
     {"entries": [(0, 1, 3, 0, 0)]}, "not a lasti"),
    ("exception info", body("LOAD_FAST 0", "PUSH_EXC_INFO", "RETURN_VALUE"), {},
     "not an exception"),
    ("pop_except", body("LOAD_FAST 0", "POP_EXCEPT", *RETURN), {}, "previously handled exception"),
    ("still handling", body(*RETURN, "PUSH_EXC_INFO", "POP_TOP", "POP_TOP", *RETURN),
     {"entries": [(0, 1, 3, 0, 0)]}, "returns while handling 1"),
    ("yield", body("LOAD_FAST 0", "YIELD_VALUE", "RESUME 1", "RETURN_VALUE"), {},
     "does not belong to a generator"),
    ("generator flags", body(*RETURN), {"co_flags": 0x23}, "flags do not agree"),
    ("two kinds of generator", [("RETURN_GENERATOR", 0), ("POP_TOP", 0), *body(*RETURN)],
     {"co_flags": 0xA3}, "not exactly one"),
    ("yield from nothing", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                            *body("LOAD_FAST 0", "YIELD_VALUE", "RESUME 2", "RETURN_VALUE")],
     {"co_flags": 0x23}, "delegates to an iterator"),
    ("yield without RESUME", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                              *body("LOAD_FAST 0", "YIELD_VALUE", "RETURN_VALUE")],
     {"co_flags": 0x23}, "must be followed by RESUME"),
    ("RESUME without yield", body("RESUME 2", *RETURN), {}, "does not follow YIELD_VALUE"),
    ("class namespace", [("COPY_FREE_VARS", 1), *body("LOAD_CLASSDEREF 1", "RETURN_VALUE")],
     {"co_freevars": ("b",)}, "mapping of locals"),
    ("handler's depth", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 1, 0)]},
     "depth 0 is below its handler's 1"),
    ("handler's operands", body("LOAD_FAST 0", "LOAD_ATTR 0", "RETURN_VALUE", *HANDLER),
     {"entries": [(2, 3, 4, 1, 0)]}, "depth 1 is below its handler's 1"),
    ("handler's room", body(*RETURN, *HANDLER),
     {"entries": [(0, 2, 3, 0, 1)], "co_stacksize": 1}, "handler's stack depth 2 exceeds"),
    ("handler's lasti", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 0, 1)]}, "returns with 2"),
    ("overlap", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 0, 0), (1, 2, 3, 0, 0)]},
     "bad range"),
    ("empty range", body(*RETURN, *HANDLER), {"entries": [(1, 1, 3, 0, 0)]}, "bad range"),
    ("handler at the end", body(*RETURN), {"entries": [(0, 1, 3, 0, 0)]}, "no instruction begins"),
    ("range past the end", body(*RETURN), {"co_exceptiontable": b"\x80\x04\x00\x00"}, "bad range"),
    ("table cut", body(*RETURN), {"co_exceptiontable": b"\x80\x01"}, "malformed number"),
    ("table start", body(*RETURN), {"co_exceptiontable": b"\x00\x01\x01\x00"}, "no entry begins"),
    ("line table short", body(*RETURN), {"co_linetable": b"\xe8\x00"}, "covers 1 of 3"),
    ("line table cut", body(*RETURN), {"co_linetable": b"\xea"}, "malformed entry"),
]  # fmt: skip


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
    code = assemble(body("NOP", "LOAD_FAST 0", "POP_TOP", "POP_TOP", *RETURN))
    with pytest.raises(VerificationError) as caught:
        verify(code)
    text = str(caught.value)
    assert code.co_qualname in text
    assert code.co_filename in text
    assert f"line {code.co_firstlineno}" in text
    assert "offset 8, POP_TOP 0: pops 1 of 0 stack slots" in text


def test_a_comprehension_needs_an_iterator() -> None:
    def function(x):
        return [y for y in x]

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


@pytest.mark.parametrize(
    "function, unbound",
    [(definite, None), (conditional, "b"), (deleted, "b"), (in_a_handler, "b")],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_unchecked_reads_need_a_bound_local(function: Any, unbound: str | None) -> None:
    """Where a version reads locals without a check, they must be bound on every path."""
    assert TABLE is not None
    table = dataclasses.replace(TABLE, unchecked=frozenset({"LOAD_FAST"}))
    if unbound is None:
        verify(function.__code__, prepared=Prepared(table))
    else:
        with pytest.raises(VerificationError, match=f"local '{unbound}' may be unbound"):
            verify(function.__code__, prepared=Prepared(table))


# -- lines -----------------------------------------------------------------------------------


def test_missing_lines() -> None:
    def function(a):
        return a.name

    code = function.__code__
    assert missing_lines(code) == []
    assert len(code.co_code) // 2 == 8
    nameless = code.replace(co_linetable=bytes((0x80 | 15 << 3 | 7,)))
    verify(nameless)
    raising = {"RESUME", "LOAD_FAST", "LOAD_ATTR"}
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
