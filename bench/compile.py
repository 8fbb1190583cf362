"""What specialising costs: its time per graph, its share of a compile, and the memory it takes.

A compile is cold where Inductor's caches are empty, warm where they hold the graph.  Its time is that
of the first calls, until a call is as fast as it gets.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch._inductor.utils import fresh_cache

import bcspec.torch

from .cases import mlp
from .measure import Timing
from .overheads import WARM_UP
from .report import progress_bar, row, table, write


def add(number: int, grad: bool) -> tuple[Any, torch.Tensor]:
    """Add a number, so that each is a graph of its own."""

    def add_number(x: torch.Tensor) -> torch.Tensor:
        return x + number

    return add_number, torch.randn(4, requires_grad=grad)


def linear(number: int, grad: bool) -> tuple[Any, torch.Tensor]:
    size = number + 2
    return torch.nn.Linear(size, size).requires_grad_(grad), torch.randn(2, size)


def perceptron(number: int, grad: bool) -> tuple[Any, torch.Tensor]:
    return mlp().requires_grad_(grad), torch.randn(number + 2, 4)


#: Given a number and whether gradients are wanted: a function or module, and its argument.
PROGRAMS: dict[str, Callable[[int, bool], tuple[Any, torch.Tensor]]] = {
    "add": add,
    "Linear": linear,
    "MLP": perceptron,
}

MODES = {"forward": False, "fwd+bwd": True}

BACKENDS = {"stock": "inductor", "bcspec": "bcspec"}


def first_calls(target: Any, x: torch.Tensor, backend: str, grad: bool) -> Any:
    """Compile, and call until everything has settled; gives what has been compiled."""
    compiled = torch.compile(target, backend=backend)
    for _ in range(WARM_UP):
        y = compiled(x)
        if grad:
            y.sum().backward()
    return compiled


def one_graph(program: str, number: int, grad: bool, column: str) -> dict[str, float]:
    """Compile a program that has not been compiled before.

    Returns:
        Seconds in all, seconds specialising, and graphs.
    """
    target, x = PROGRAMS[program](number, grad)
    torch._dynamo.reset()
    before = bcspec.torch.stats()
    started = time.perf_counter()
    first_calls(target, x, BACKENDS[column], grad)
    seconds = time.perf_counter() - started
    after = bcspec.torch.stats()
    return {
        "seconds": seconds,
        "specialising": after.seconds - before.seconds,
        "graphs": after.graphs - before.graphs,
    }


def compiles(program: str, grad: bool, count: int, advance: Callable[[], object]) -> dict[str, Any]:
    """Compile `count` graphs cold, then the same ones warm, each for both columns in turn."""
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(count):
        for column in BACKENDS:
            with fresh_cache():
                for state in ("cold", "warm"):
                    one = one_graph(program, number, grad, column)
                    found.setdefault(f"{state} {column}", []).append(one)
        advance()
    return found


def memory(program: str, grad: bool, count: int) -> dict[str, float]:
    """Bytes that a compiled graph keeps, by column, as Python's allocator sees it."""
    found = {}
    for column in BACKENDS:
        one_graph(program, 0, grad, column)
        gc.collect()
        tracemalloc.start()
        kept = []
        for number in range(count):
            target, x = PROGRAMS[program](number, grad)
            kept.append(first_calls(target, x, BACKENDS[column], grad))
        gc.collect()
        found[column] = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
        del kept
    return found


def rows_of(program: str, mode: str, found: dict[str, Any], bytes_kept: dict[str, float]) -> Any:
    """The rows of one program: a cold and a warm compile."""
    for state in ("cold", "warm"):
        samples = {
            column: [each["seconds"] * 1e6 for each in found[f"{state} {column}"]]
            for column in BACKENDS
        }
        timings = {column: Timing.of(values) for column, values in samples.items()}
        ours = found[f"{state} bcspec"]
        specialising = Timing.of([each["specialising"] / each["graphs"] * 1e3 for each in ours])
        yield {
            **row(f"{program}, {state} compile", mode, timings),
            "specialising_ms_per_graph": round(specialising.median, 2),
            "specialising_share": round(specialising.median * 1000 / (timings["bcspec"].median), 4),
            "stock_bytes_per_graph": round(bytes_kept["stock"]),
            "bcspec_bytes_per_graph": round(bytes_kept["bcspec"]),
        }


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench compile", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--graphs", type=int, default=5, help="graphs per row (default 5)")
    parser.add_argument("--case", action="append", choices=PROGRAMS, help="only this one")
    options = parser.parse_args(argv)
    console = Console()
    chosen = options.case or list(PROGRAMS)
    rows: list[dict[str, Any]] = []
    with progress_bar(console, len(chosen) * len(MODES) * options.graphs) as step:
        for program in chosen:
            for mode, grad in MODES.items():
                advance = step(f"{program}, {mode}")
                found = compiles(program, grad, options.graphs, advance)
                kept = memory(program, grad, options.graphs)
                rows += rows_of(program, mode, found, kept)
    console.print(table("compiles", rows))
    console.print(costs(rows))
    write(options.json, rows)
    return 0


def costs(rows: list[dict[str, Any]]) -> Table:
    """What is about specialising in the rows, for a terminal."""
    shown = Table(title="specialising, per graph")
    shown.add_column("case")
    for name in ("mode", "time, ms", "share of the compile", "kept, kB", "stock keeps, kB"):
        shown.add_column(name, justify="right")
    for each in rows:
        shown.add_row(
            each["case"],
            each["mode"],
            f"{each['specialising_ms_per_graph']:.1f}",
            f"{each['specialising_share']:.1%}",
            f"{each['bcspec_bytes_per_graph'] / 1000:.0f}",
            f"{each['stock_bytes_per_graph'] / 1000:.0f}",
        )
    return shown
