"""Rows, tables and progress bars that the benchmarks share."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .measure import Timing

COLUMNS = ("eager", "stock", "bcspec", "floor")

#: Key of a row -> the columns whose medians it divides.
RATIOS = {
    "ratio_stock_over_bcspec": ("stock", "bcspec"),
    "ratio_bcspec_over_eager": ("bcspec", "eager"),
}

#: Unit in the keys of rows -> the same in a title.
UNITS = {"us": "microseconds per call", "instructions": "instructions per call"}


def row(case: str, mode: str, timings: dict[str, Timing], unit: str = "us") -> dict[str, Any]:
    """One row of the JSON file; a column that was not measured is None.

    Args:
        case: what was called.
        mode: how.
        timings: by column.
        unit: of the measurements, part of the keys.
    """
    found: dict[str, Any] = {"case": case, "mode": mode}
    for key, part in ((unit, "median"), (f"min_{unit}", "minimum"), (f"spread_{unit}", "spread")):
        for name in COLUMNS:
            timing = timings.get(name)
            found[f"{name}_{key}"] = None if timing is None else round(getattr(timing, part), 3)
    for key, (above, below) in RATIOS.items():
        pair = timings.get(above), timings.get(below)
        if pair[0] is not None and pair[1] is not None and pair[1].median > 0:
            found[key] = round(pair[0].median / pair[1].median, 3)
        else:
            found[key] = None
    return found


def cell(each: dict[str, Any], name: str, unit: str) -> str:
    if each[f"{name}_{unit}"] is None:
        return "-"
    return "{:,.1f}\n({:,.1f}, {:,.1f})".format(
        *(each[f"{name}_{key}{unit}"] for key in ("", "min_", "spread_"))
    )


def table(title: str, rows: list[dict[str, Any]], unit: str = "us") -> Table:
    """The rows for a terminal."""
    shown = Table(title=f"{title}, {UNITS[unit]}: median (minimum, spread)")
    shown.add_column("case")
    for name in ("mode", *COLUMNS, "stock/bcspec", "bcspec/eager"):
        shown.add_column(name, justify="right")
    for each in rows:
        shown.add_row(
            each["case"],
            each["mode"],
            *(cell(each, name, unit) for name in COLUMNS),
            *("-" if each[ratio] is None else f"{each[ratio]:.2f}" for ratio in RATIOS),
        )
    return shown


def geometric_mean(rows: list[dict[str, Any]]) -> float:
    """Of stock over bcspec."""
    return statistics.geometric_mean(each["ratio_stock_over_bcspec"] for each in rows)


@contextlib.contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[str], Callable[[], object]]]:
    """Gives a function that names the present step and returns how to advance by one."""
    columns = (TextColumn("{task.description:>24}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)

        def step(description: str) -> Callable[[], object]:
            progress.update(task, description=description)
            return lambda: progress.advance(task)

        yield step


def add_arguments(parser: argparse.ArgumentParser, rounds: int, number: int) -> None:
    """The options of every benchmark."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"rounds per row (default {rounds})"
    )
    parser.add_argument(
        "--number", type=int, default=number, help=f"calls per round (default {number})"
    )


def write(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """The JSON file, if one is asked for."""
    if path is not None:
        path.write_text(json.dumps(rows, indent=2) + "\n")
