"""Add one: what a warm call costs in eager mode, compiled, compiled with bcspec, and bare.

The seed of the project: nearly all of a compiled call on a small tensor is wrapper code around one
kernel.  The floor is Inductor's generated `call` alone, with its list of arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bcspec.torch.chain import reachable
from bcspec.torch.internals import DisableWrapper

from .measure import Timing, interleaved

#: Mode -> (context to run in, whether the input requires gradients).
MODES: dict[str, tuple[Callable[[], AbstractContextManager[Any]], bool]] = {
    "no_grad": (torch.no_grad, False),
    "grad": (contextlib.nullcontext, True),
    "inference": (torch.inference_mode, False),
}

COLUMNS = ("eager", "stock", "bcspec", "floor")

#: Calls before anything is timed: compiles, settles, specialises.
WARM_UP = 5


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def fresh_copy(function: FunctionType) -> FunctionType:
    """The same function with a code object of its own: Dynamo's caches belong to code objects."""
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)


def bare_call(x: torch.Tensor) -> Callable[[], object]:
    """Inductor's `call` for add one, found in what the stock backend returns."""
    graphs: list[Any] = []

    def capture(gm: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx

        graphs.append(compile_fx(gm, inputs))
        return graphs[-1]

    torch.compile(fresh_copy(add_one), backend=capture)(x)
    wrapper = DisableWrapper.of(graphs[0])
    assert wrapper is not None, "the stock backend returned no disable wrapper"
    calls = [
        part.current_callable for part in reachable(wrapper.function) if is_inductor_graph(part)
    ]
    call = calls[0]
    return lambda: call([x])


def is_inductor_graph(part: object) -> bool:
    return type(part).__name__ == "CompiledFxGraph"


def candidates(x: torch.Tensor) -> dict[str, Callable[[], object]]:
    """One warm call per column."""
    stock = torch.compile(fresh_copy(add_one))
    ours = torch.compile(fresh_copy(add_one), backend="bcspec")
    calls: dict[str, Callable[[], object]] = {
        "eager": lambda: add_one(x),
        "stock": lambda: stock(x),
        "bcspec": lambda: ours(x),
        "floor": bare_call(x),
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


def row(mode: str, timings: dict[str, Timing]) -> dict[str, Any]:
    """One row of the JSON file."""
    median = {name: timing.median for name, timing in timings.items()}
    return {
        "case": "add one",
        "mode": mode,
        **{f"{name}_us": round(timings[name].median, 3) for name in COLUMNS},
        **{f"{name}_min_us": round(timings[name].minimum, 3) for name in COLUMNS},
        **{f"{name}_spread_us": round(timings[name].spread, 3) for name in COLUMNS},
        "ratio_stock_over_bcspec": round(median["stock"] / median["bcspec"], 3),
        "ratio_bcspec_over_eager": round(median["bcspec"] / median["eager"], 3),
    }


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows for a terminal."""
    shown = Table(title="add one, microseconds per call: median (minimum, spread)")
    shown.add_column("mode")
    for name in (*COLUMNS, "stock/bcspec", "bcspec/eager"):
        shown.add_column(name, justify="right")
    for each in rows:
        times = [
            f"{each[f'{c}_us']:.1f}\n({each[f'{c}_min_us']:.1f}, {each[f'{c}_spread_us']:.1f})"
            for c in COLUMNS
        ]
        ratios = (each["ratio_stock_over_bcspec"], each["ratio_bcspec_over_eager"])
        shown.add_row(each["mode"], *times, *(f"{ratio:.2f}" for ratio in ratios))
    return shown


@contextlib.contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[str], Callable[[], object]]]:
    """Gives a function that names the present step and returns how to advance by one."""
    columns = (TextColumn("{task.description:>16}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)

        def step(description: str) -> Callable[[], object]:
            progress.update(task, description=description)
            return lambda: progress.advance(task)

        yield step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--rounds", type=int, default=150, help="rounds per mode (default 150)")
    parser.add_argument("--number", type=int, default=200, help="calls per round (default 200)")


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench overheads", description=__doc__)
    add_arguments(parser)
    options = parser.parse_args(argv)
    console = Console()
    rows = []
    with progress_bar(console, len(MODES) * options.rounds) as step:
        for mode in MODES:
            timings = measure(mode, options.rounds, options.number, step(mode))
            rows.append(row(mode, timings))
    console.print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0
