"""`bcspec.explain`: one page of text about a specialised function."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..evaluate import Assumption
    from ..install import Record

_KINDS = ["unfolded", "removed", "folded", "unrolled", "declined"]

#: Lines of one section before the rest is only counted.
_LONGEST = 12


def explain_record(record: Record) -> str:
    """The page about one residual function.

    Args:
        record: what was remembered when it was made.
    """
    generic = record.generic
    code = generic.__code__
    out = [
        f"{generic.__qualname__}  ({os.path.basename(code.co_filename)}:{code.co_firstlineno})",
        "" if record.valid else "an assumption has broken: the generic code runs",
        record.source,
    ]
    for kind in _KINDS:
        notes = Counter(
            f"{note.text}  ({os.path.basename(note.filename)}:{note.line})"
            for note in record.notes
            if note.kind == kind
        )
        out += section(kind, [text + (f"  x{n}" if n > 1 else "") for text, n in notes.items()])
    assumed = [
        f"{assumption.name}: {kind_of(assumption)}, {assumption.reason}"
        for assumption in record.assumptions
    ]
    out += section("assumed", assumed)
    return "\n".join(line for line in out if line is not None)


def kind_of(assumption: Assumption) -> str:
    """How an assumption is justified, in a word or two."""
    unnoticed = assumption.kind == "watched" and not assumption.is_watched
    return "not watched" if unnoticed else assumption.kind


def section(title: str, lines: list[str]) -> list[str]:
    """A heading with its lines; nothing when there are none."""
    if not lines:
        return []
    shown = [f"  {line}" for line in lines[:_LONGEST]]
    if len(lines) > _LONGEST:
        shown.append(f"  ... and {len(lines) - _LONGEST} more")
    return [f"{title}:", *shown]
