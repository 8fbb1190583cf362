"""Graphs that are compiled, called and dropped: what is left of them, with bcspec and without.

Counts the objects that the collector knows, the resident memory, and the functions, compiled functions and
inputs that are still there after a collection.  Torch keeps a little for each graph itself.
"""

from __future__ import annotations

import argparse
import gc
import resource
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import bcspec.torch

from .report import progress_bar, write

#: Calls of each graph: enough for all layers to settle.
CALLS = 5

COLUMNS = ("stock", "bcspec")


@dataclass(frozen=True)
class Left:
    """What is there after so many graphs.

    Attributes:
        graphs: how many were compiled and dropped.
        objects: that the collector knows.
        megabytes: the most memory that was resident so far.
        alive: objects of the dropped graphs that should be gone.
    """

    graphs: int
    objects: int
    megabytes: float
    alive: int


def one_graph(number: int, backend: str) -> list[weakref.ref[object]]:
    """Compile and call a graph of its own, every other one with gradients; what should die with it."""
    grad = number % 2 == 0

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    compiled = torch.compile(function, backend=backend, dynamic=False)
    x = torch.ones(3, requires_grad=grad)
    for _ in range(CALLS):
        result = compiled(x)
        if grad:
            result.sum().backward()
    return [weakref.ref(each) for each in (function, compiled, x)]


def compile_and_drop(graphs: int, backend: str, every: int) -> Iterator[Left]:
    """Compile, call and drop graphs one by one.

    Args:
        graphs: how many.
        backend: of `torch.compile`.
        every: after how many of them to collect and count.
    """
    references: list[weakref.ref[object]] = []
    for number in range(1, graphs + 1):
        references += one_graph(number, backend)
        torch._dynamo.reset()
        if number % every == 0:
            gc.collect()
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            alive = sum(reference() is not None for reference in references)
            references.clear()
            yield Left(number, len(gc.get_objects()), megabytes, alive)


def growth(counted: list[Left]) -> float:
    """Objects per graph in the second half."""
    half = counted[(len(counted) - 1) // 2 :]
    return (half[-1].objects - half[0].objects) / (half[-1].graphs - half[0].graphs)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked; 1 if something of a graph stays."""
    parser = argparse.ArgumentParser(prog="bcspec bench memory", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--graphs", type=int, default=400, help="for each column (default 400)")
    parser.add_argument("--backend", default="eager", help="of torch.compile (default eager)")
    options = parser.parse_args(argv)
    console = Console()
    every = max(options.graphs // 20, 1)
    rows = []
    shown = Table(title=f"graphs compiled and dropped, backend {options.backend}")
    for heading in ("", "graphs", "objects", "objects/graph", "MB", "still alive"):
        shown.add_column(heading, justify="right" if heading else "left")
    with progress_bar(console, len(COLUMNS) * (options.graphs // every)) as step:
        for column in COLUMNS:
            if column == "bcspec":
                bcspec.torch.install()
            advance = step(column)
            counted = []
            for left in compile_and_drop(options.graphs, options.backend, every):
                counted.append(left)
                advance()
            last, alive = counted[-1], sum(left.alive for left in counted)
            numbers = (f"{last.objects:,}", f"{growth(counted):.1f}", f"{last.megabytes:.0f}")
            shown.add_row(column, str(last.graphs), *numbers, str(alive))
            rows.append(
                {
                    "column": column,
                    "backend": options.backend,
                    "graphs": last.graphs,
                    "objects": last.objects,
                    "objects_per_graph": growth(counted),
                    "megabytes": last.megabytes,
                    "alive": alive,
                }
            )
    console.print(shown)
    write(options.json, rows)
    return 1 if rows[-1]["alive"] else 0
