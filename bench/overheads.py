"""Add one: what a warm call costs in eager mode, compiled, compiled with bcspec, and bare.

The seed of the project: nearly all of a compiled call on a small tensor is wrapper code around one
kernel.  The floor is Inductor's generated `call` alone, with its list of arguments.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any

import torch
from rich.console import Console

from .floor import bare_calls
from .measure import Timing, interleaved
from .report import add_arguments, progress_bar, row, table, write

#: Mode -> (context to run in, whether the input requires gradients).
MODES: dict[str, tuple[Callable[[], AbstractContextManager[Any]], bool]] = {
    "no_grad": (torch.no_grad, False),
    "grad": (contextlib.nullcontext, True),
    "inference": (torch.inference_mode, False),
}

#: Calls before anything is timed: compiles, settles, specialises.
WARM_UP = 5


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def fresh_copy(function: Callable[..., Any]) -> FunctionType:
    """The same function with a code object of its own: Dynamo's caches belong to code objects."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def candidates(x: torch.Tensor) -> dict[str, Callable[[], object]]:
    """One warm call per column."""
    stock = torch.compile(fresh_copy(add_one))
    ours = torch.compile(fresh_copy(add_one), backend="bcspec")
    calls: dict[str, Callable[[], object]] = {
        "eager": lambda: add_one(x),
        "stock": lambda: stock(x),
        "bcspec": lambda: ours(x),
        "floor": bare_calls(fresh_copy(add_one), x),
    }
    for call in calls.values():
        for _ in range(WARM_UP):
            call()
    return calls


def measure(
    mode: str, rounds: int, number: int, advance: Callable[[], object]
) -> dict[str, Timing]:
    """Time all columns in one mode."""
    context, requires_grad = MODES[mode]
    with context():
        x = torch.randn(4, requires_grad=requires_grad)
        return interleaved(candidates(x), rounds=rounds, number=number, advance=advance)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench overheads", description=__doc__)
    add_arguments(parser, rounds=150, number=200)
    options = parser.parse_args(argv)
    console = Console()
    rows = []
    with progress_bar(console, len(MODES) * options.rounds) as step:
        for mode in MODES:
            timings = measure(mode, options.rounds, options.number, step(mode))
            rows.append(row("add one", mode, timings))
    console.print(table("add one", rows))
    write(options.json, rows)
    return 0
