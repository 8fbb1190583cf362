"""The running interpreter's instructions against the tables of a version of CPython.

On a version that has tables nothing may differ.  On a new one the list says what to write: the first
step of "Add a Python version" in ARCHITECTURE.md.
"""

from __future__ import annotations

import dis
import opcode
import platform
import sys
from collections.abc import Iterator
from typing import Any

from ..interpreter import MAGIC_NUMBERS
from ..lift.tables import TABLES as LIFTING
from ..verify.model import Effect, Flow, Operand, Spec
from ..verify.prepare import cache_entries
from ..verify.tables import TABLES as VERIFYING

#: Instructions that compiled code never holds, or whose work the decoder does.
_NOT_COMPILED = frozenset(
    """
    CACHE EXTENDED_ARG RESERVED DO_TRACING INTERPRETER_EXIT EXIT_INIT_CHECK ENTER_EXECUTOR
    """.split()
)
#: Numbers of the instructions that have an argument.
_WITH_ARGUMENT = frozenset(getattr(dis, "hasarg", range(opcode.HAVE_ARGUMENT, 256)))

#: What the interpreter keeps in lists, and how many entries the tables know, by version.
_LISTS = {
    "_nb_ops": {(3, 11): 26, (3, 12): 26, (3, 13): 26, (3, 14): 27},
    "_intrinsic_1_descs": {(3, 12): 12, (3, 13): 12, (3, 14): 12},
    "_intrinsic_2_descs": {(3, 12): 5, (3, 13): 6, (3, 14): 6},
    "_common_constants": {(3, 14): 5},
    "_special_method_names": {(3, 14): 4},
}


def compiled() -> dict[str, int]:
    """Names and numbers of the instructions that the running interpreter's compiler may write."""
    specialised = getattr(opcode, "_specialized_opmap", {})
    specialised = {*specialised, *getattr(opcode, "_specialized_instructions", ())}
    return {
        name: number
        for name, number in opcode.opmap.items()
        if number < 256
        and name not in _NOT_COMPILED
        and name not in specialised
        and not name.startswith("INSTRUMENTED_")
    }


def differences(version: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """What differs from the tables of `version`: a heading and a line, several for each heading."""
    lifting, verifying = LIFTING[version], VERIFYING[version].specs
    lifted = {*lifting.LIFT, *lifting.JUMPS, *lifting.PROLOGUE}
    found = compiled()
    for name in sorted(found):
        missing = [
            where for where, known in (("lift", lifted), ("verify", verifying)) if name not in known
        ]
        if missing:
            cached = cache_entries()[found[name]]
            text = f"{name} (lacks {' and '.join(missing)}; {cached} cache entries)"
            yield "instructions that are new", text
    for name in sorted((lifted | verifying.keys()) - found.keys()):
        yield "instructions that are gone", name
    for name in sorted(found.keys() & verifying.keys()):
        if name == "PRECALL":  # told together with the effect of the CALL after it
            continue
        for arg, ours, theirs in _stack_effects(verifying[name], found[name]):
            text = f"{name} {arg}: {ours:+} in the tables, {theirs:+} in the interpreter"
            yield "stack effects", text
    for name, known in _LISTS.items():
        entries: list[Any] = list(getattr(opcode, name, ()))
        if known.get(version, 0) not in (len(entries), 0):
            yield "lists that grew or shrank", f"opcode.{name}: {entries[known[version] :]}"


def _stack_effects(spec: Spec, number: int) -> Iterator[tuple[int | None, int, int]]:
    """Argument, effect in the tables and effect in the interpreter, where these are not the same.

    Where an action does the stack work, the tables do not tell the effect.
    """
    if spec.action is not None or spec.flow is not Flow.NEXT:
        return
    for arg in _arguments(spec):
        effect = spec.effect if isinstance(spec.effect, Effect) else spec.effect(arg)
        ours = len(effect.pushes) - effect.pops
        given = arg if number in _WITH_ARGUMENT else None
        theirs = dis.stack_effect(number, given, jump=False)
        if ours != theirs:
            yield given, ours, theirs
        if given is None:
            return


def _arguments(spec: Spec) -> range:
    if spec.operand is Operand.RANGE:
        return range(spec.lowest, min(spec.limit, spec.lowest + 8))
    return range(max(spec.lowest, 1), 5)


def main(version: tuple[int, int] | None = None) -> int:
    """Print how the running interpreter differs from the tables of a version.

    Args:
        version: of CPython; the running one, or the newest that has tables, by default.

    Returns:
        0 when nothing differs, 1 otherwise.
    """
    if version is None:
        version = min(max(LIFTING), sys.version_info[:2])
    heading = ""
    for title, text in differences(version):
        if title != heading:
            heading = title
            print(f"{title}:")
        print(f"    {text}")
    known = ".".join(map(str, version))
    verdict = "as the tables say" if not heading else "not as the tables say"
    print(
        f"opcodes: {platform.python_version()} against the tables of {known} "
        f"(bytecode {MAGIC_NUMBERS[version]}): {verdict}"
    )
    return 1 if heading else 0
