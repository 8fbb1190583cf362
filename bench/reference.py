"""Torch's reference wrappers, generic, as torch generates them, and specialised by bcspec.

torch 2.13 ships readable, generic implementations of its runtime wrappers and, beside them, generators
that write the same as straight-line source for one graph.  Specialising the generic ones gives the
same from one source of truth; this measures how close it comes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .measure import Timing, interleaved
from .reference_cases import VARIANTS, build, call_of
from .report import progress_bar

COLUMNS = ("generic", "generated", "specialised")


def measure(name: str, rounds: int, number: int, advance: Any) -> dict[str, Timing]:
    """Time the three functions of one variant."""
    case = build(name)
    calls = {which: call_of(case, which) for which in COLUMNS}
    return interleaved(calls, rounds=rounds, number=number, advance=advance)


def row(name: str, timings: dict[str, Timing]) -> dict[str, Any]:
    """One row of the JSON file."""
    found: dict[str, Any] = {"case": name}
    for which in COLUMNS:
        found[f"{which}_us"] = round(timings[which].median, 3)
        found[f"{which}_min_us"] = round(timings[which].minimum, 3)
        found[f"{which}_spread_us"] = round(timings[which].spread, 3)
    generated = timings["generated"].median
    found["ratio_specialised_over_generated"] = round(timings["specialised"].median / generated, 3)
    found["ratio_generic_over_generated"] = round(timings["generic"].median / generated, 3)
    return found


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows for a terminal."""
    shown = Table(title="reference wrappers, microseconds per call: median (minimum, spread)")
    shown.add_column("metadata")
    for name in (*COLUMNS, "specialised/generated"):
        shown.add_column(name, justify="right")
    for each in rows:
        times = [
            "{:.2f} ({:.2f}, {:.2f})".format(
                *(each[f"{which}_{key}"] for key in ("us", "min_us", "spread_us"))
            )
            for which in COLUMNS
        ]
        shown.add_row(each["case"], *times, f"{each['ratio_specialised_over_generated']:.2f}")
    return shown


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench reference", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--rounds", type=int, default=100, help="rounds per row (default 100)")
    parser.add_argument("--number", type=int, default=300, help="calls per round (default 300)")
    options = parser.parse_args(argv)
    console = Console()
    rows = []
    with progress_bar(console, len(VARIANTS) * options.rounds) as step:
        for name in VARIANTS:
            rows.append(row(name, measure(name, options.rounds, options.number, step(name))))
    console.print(table(rows))
    mean = statistics.geometric_mean(each["ratio_specialised_over_generated"] for each in rows)
    console.print(f"specialised/generated, geometric mean: {mean:.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0
