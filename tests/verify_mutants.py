"""Damaged code objects, and a process that runs those the verifier accepts.

Run as a script: ``python verify_mutants.py SEED COUNT SKIP CALLS`` writes one line for each mutant,
before running it when it was accepted, so that the parent knows what a crash was about.
"""

from __future__ import annotations

import dis
import gc
import opcode
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from bcspec.verify.prepare import cache_entries

NOP, CACHE, EXTENDED_ARG = (opcode.opmap[name] for name in ("NOP", "CACHE", "EXTENDED_ARG"))
CACHES = cache_entries()
#: What compiled code may hold; instructions that only the interpreter writes are never accepted.
PLAIN = [
    op
    for op, name in enumerate(opcode.opname[:256])
    if not name.startswith(("<", "INSTRUMENTED_"))
    and name not in ("CACHE", "EXTENDED_ARG", "RESERVED")
]
JUMPS = frozenset(opcode.hasjrel)
BY_CACHES = {size: [op for op in PLAIN if CACHES[op] == size] for size in set(CACHES)}

Mutation = Callable[[CodeType, random.Random], CodeType]


def instructions(raw: bytes | bytearray) -> list[int]:
    """Where instructions without EXTENDED_ARG begin."""
    starts, at, extended = [], 0, False
    while at < len(raw):
        if not extended and raw[at] != EXTENDED_ARG:
            starts.append(at)
        extended = raw[at] == EXTENDED_ARG
        at += 2 + 2 * CACHES[raw[at]]
    return starts


def pick(
    code: CodeType, rng: random.Random, wanted: Callable[[int], bool]
) -> tuple[bytearray, int]:
    """The bytes, and where one random instruction whose opcode is wanted begins (or -1)."""
    raw = bytearray(code.co_code)
    places = [at for at in instructions(raw) if wanted(raw[at])]
    return raw, rng.choice(places) if places else -1


def other_opcode(code: CodeType, rng: random.Random) -> CodeType:
    """Another instruction with as many cache entries."""
    raw, at = pick(code, rng, lambda op: True)
    raw[at] = rng.choice(BY_CACHES[CACHES[raw[at]]])
    return code.replace(co_code=bytes(raw))


def dropped(code: CodeType, rng: random.Random) -> CodeType:
    """One instruction overwritten by NOPs."""
    raw, at = pick(code, rng, lambda op: True)
    size = 2 + 2 * CACHES[raw[at]]
    raw[at : at + size] = bytes((NOP, 0)) * (size // 2)
    return code.replace(co_code=bytes(raw))


def exchanged(code: CodeType, rng: random.Random) -> CodeType:
    """Two neighbours in the other order."""
    raw, at = pick(code, rng, lambda op: True)
    middle = at + 2 + 2 * CACHES[raw[at]]
    if middle < len(raw):
        end = middle + 2 + 2 * CACHES[raw[middle]]
        raw[at:end] = raw[middle:end] + raw[at:middle]
    return code.replace(co_code=bytes(raw))


def argument(code: CodeType, rng: random.Random) -> CodeType:
    """Another argument of an instruction that is no jump."""
    raw, at = pick(code, rng, lambda op: op >= opcode.HAVE_ARGUMENT and op not in JUMPS)
    if at >= 0:
        near = raw[at + 1] + rng.choice((-2, -1, 1, 2))
        raw[at + 1] = rng.choice((near & 0xFF, rng.randrange(256)))
    return code.replace(co_code=bytes(raw))


def jump(code: CodeType, rng: random.Random) -> CodeType:
    """A jump to a place nearby."""
    raw, at = pick(code, rng, lambda op: op in JUMPS)
    if at >= 0:
        raw[at + 1] = (raw[at + 1] + rng.choice((-5, -2, -1, 1, 2, 5, 9))) & 0xFF
    return code.replace(co_code=bytes(raw))


def null(code: CodeType, rng: random.Random) -> CodeType:
    """A NULL too many, too few, or elsewhere."""
    wanted = {opcode.opmap[name] for name in ("PUSH_NULL", "LOAD_GLOBAL", "LOAD_CONST", "POP_TOP")}
    raw, at = pick(code, rng, wanted.__contains__)
    if at >= 0 and opcode.opname[raw[at]] == "LOAD_GLOBAL":
        raw[at + 1] ^= 1
    elif at >= 0:
        raw[at] = NOP if opcode.opname[raw[at]] == "PUSH_NULL" else opcode.opmap["PUSH_NULL"]
    return code.replace(co_code=bytes(raw))


def handler(code: CodeType, rng: random.Random) -> CodeType:
    """An exception-table entry with another range, target, depth or lasti; or none."""
    entries = [
        [e.start // 2, e.end // 2 - e.start // 2, e.target // 2, e.depth << 1 | e.lasti]
        for e in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    ]
    if entries:
        entry = rng.choice(entries)
        field = rng.randrange(6)
        if field < 4:
            entry[field] = max(0, entry[field] + rng.choice((-7, -2, -1, 1, 2, 7)))
        elif field == 4:
            entries.remove(entry)
        else:
            rng.shuffle(entries)
    return code.replace(co_exceptiontable=b"".join(map(encode_entry, entries)))


def encode_entry(entry: list[int]) -> bytes:
    """One exception-table entry: six bits a byte, most significant first."""
    out = bytearray()
    for number in entry:
        groups = [number & 0x3F]
        while number := number >> 6:
            groups.append(number & 0x3F | 0x40)
        out += bytes(reversed(groups))
    out[0] |= 0x80
    return bytes(out)


def table_bytes(code: CodeType, rng: random.Random) -> CodeType:
    """A damaged byte of the exception table, or a cut."""
    table = bytearray(code.co_exceptiontable)
    if table:
        table[rng.randrange(len(table))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            table.pop()
    return code.replace(co_exceptiontable=bytes(table))


def line_bytes(code: CodeType, rng: random.Random) -> CodeType:
    """A damaged byte of the line table, or a cut."""
    table = bytearray(code.co_linetable)
    table[rng.randrange(len(table))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.2:
        table.pop()
    return code.replace(co_linetable=bytes(table))


def stacksize(code: CodeType, rng: random.Random) -> CodeType:
    """Less room than the compiler asked for."""
    return code.replace(co_stacksize=max(0, code.co_stacksize - rng.randint(1, 3)))


def flags(code: CodeType, rng: random.Random) -> CodeType:
    """Another kind of generator, or none."""
    return code.replace(co_flags=code.co_flags ^ rng.choice((0x20, 0x80, 0x200, 0x1)))


MUTATIONS: tuple[Mutation, ...] = (
    other_opcode,
    dropped,
    exchanged,
    argument,
    jump,
    null,
    handler,
    table_bytes,
    line_bytes,
    stacksize,
    flags,
)


DAMAGED = ("co_code", "co_exceptiontable", "co_linetable", "co_stacksize", "co_flags")


def inside(code: CodeType) -> Iterator[tuple[CodeType, ...]]:
    """Ways from a code object to itself and to every one nested in it."""
    yield (code,)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            for way in inside(const):
                yield (code, *way)


def rebuilt(way: tuple[CodeType, ...], replacement: CodeType) -> CodeType:
    """The first code object of `way`, with the last one replaced."""
    for parent, child in zip(reversed(way[:-1]), reversed(way[1:])):
        consts = tuple(replacement if const is child else const for const in parent.co_consts)
        replacement = parent.replace(co_consts=consts)
    return replacement


def mutants(
    samples: tuple[FunctionType, ...], seed: int, count: int
) -> Iterator[tuple[str, FunctionType, CodeType, CodeType]]:
    """Random mutants: (mutation, sample, damaged code, whole code of the sample with it)."""
    ways = [(sample, way) for sample in samples for way in inside(sample.__code__)]
    rng = random.Random(seed)
    for number in range(count):
        mutation = MUTATIONS[number % len(MUTATIONS)]
        for _ in range(8):  # a code object may have nothing to damage in this way
            sample, way = rng.choice(ways)
            damaged = mutation(way[-1], rng)
            if any(getattr(damaged, field) != getattr(way[-1], field) for field in DAMAGED):
                yield mutation.__name__, sample, damaged, rebuilt(way, damaged)
                break


def run(sample: FunctionType, code: CodeType, calls: int) -> None:
    """Call a sample with other code, whatever it raises, for at most a moment."""
    function = FunctionType(code, dict(sample.__globals__), sample.__name__)
    for _ in range(calls):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            result = function()
            if hasattr(result, "send"):
                list(result)
        except BaseException:
            traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    gc.collect()


def _too_long(*_: Any) -> None:
    raise TimeoutError


def main(seed: int, count: int, skip: int, calls: int = 12) -> None:
    """Judge mutants, run the accepted ones; a line for each, before it runs."""
    import verify_samples

    from bcspec.errors import VerificationError
    from bcspec.verify import verify

    signal.signal(signal.SIGALRM, _too_long)
    output, sys.stdout = sys.stdout, open("/dev/null", "w")
    sys.unraisablehook = lambda _: None
    gc.freeze()
    every = mutants(verify_samples.SAMPLES, seed, count)
    for number, (kind, sample, damaged, whole) in enumerate(every):
        if number < skip:
            continue
        try:
            verify(damaged)
        except VerificationError:
            print(number, kind, "rejected", file=output)
            continue
        print(number, kind, "accepted", sample.__name__, file=output, flush=True)
        # An endless loop that no signal handler can leave ends the process by SIGPROF.
        signal.setitimer(signal.ITIMER_PROF, 1)
        run(sample, whole, calls)
    signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
