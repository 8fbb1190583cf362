"""What each further argument, output, parameter, graph break or cache entry adds to a warm call."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console

from .cases import GRAD, NO_GRAD, add_many, leaf, measure
from .measure import Timing
from .report import COLUMNS, add_arguments, progress_bar, row, table, write


@dataclass(frozen=True)
class Family:
    """Calls that differ in the number of one thing.

    Attributes:
        make: given that number and whether gradients are wanted, a function or module, and its
            arguments in each call.
        sizes: the numbers.
        modes: of running them.
    """

    make: Callable[[int, bool], tuple[Any, list[tuple[Any, ...]]]]
    sizes: tuple[int, ...] = (1, 10, 100, 500)
    modes: tuple[str, ...] = (NO_GRAD, GRAD)


def arguments(count: int, grad: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    return add_many, [tuple(leaf(grad, 4) for _ in range(count))]


def outputs(count: int, grad: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    def many(x: torch.Tensor) -> list[torch.Tensor]:
        return [x + i for i in range(count)]

    return many, [(leaf(grad, 4),)]


class Summing(torch.nn.Module):
    """A module that adds up its parameters."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.terms = torch.nn.ParameterList(torch.randn(4) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for term in self.terms:
            x = x + term
        return x


def parameters(count: int, _: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    return Summing(count), [(torch.randn(4),)]


def graph_breaks(count: int, grad: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    lines = ["def broken(x):", *["    x = x + 1; graph_break()"] * count, "    return x + 1"]
    namespace: dict[str, Any] = {"graph_break": torch._dynamo.graph_break, "__name__": __name__}
    exec(compile("\n".join(lines), __file__, "exec"), namespace)
    return namespace["broken"], [(leaf(grad, 4),)]


def by_key(x: torch.Tensor, key: str) -> torch.Tensor:
    return x + len(key)


def cache_entries(count: int, grad: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    """A function that is compiled for each of many strings."""
    x = leaf(grad, 4)
    return by_key, [(x, f"key {i}") for i in range(count)]


FAMILIES: dict[str, Family] = {
    "arguments": Family(arguments),
    "outputs": Family(outputs),
    "parameters": Family(parameters),
    "graph breaks": Family(graph_breaks, sizes=(1, 5, 20)),
    # Dynamo keeps eight; a call runs through all of them.
    "cache entries": Family(cache_entries, sizes=(1, 2, 4, 8)),
}


def slopes(family: str, mode: str, sizes: tuple[int, ...], rows: list[dict[str, Any]]) -> Any:
    """The row with what one more item costs: least squares through the medians, and the minima."""
    found = {}
    for name in COLUMNS:
        points = {key: [each[f"{name}_{key}"] for each in rows] for key in ("us", "min_us")}
        if None not in points["us"]:
            median, minimum = (
                statistics.linear_regression(sizes, points[key]).slope for key in points
            )
            found[name] = Timing(median, minimum, 0.0)
    return row(f"{family}, each", mode, found)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench scaling", description=__doc__)
    add_arguments(parser, rounds=30, number=20)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one")
    parser.add_argument("--most", type=int, default=500, help="largest number of items (500)")
    options = parser.parse_args(argv)
    chosen = {name: FAMILIES[name] for name in options.family or FAMILIES}
    sizes = {name: [n for n in each.sizes if n <= options.most] for name, each in chosen.items()}
    runs = sum(len(sizes[name]) * len(each.modes) for name, each in chosen.items())
    console = Console()
    rows = []
    with progress_bar(console, runs * options.rounds) as step:
        for name, family in chosen.items():
            for mode in family.modes:
                measured = []
                for size in sizes[name]:
                    target, calls = family.make(size, mode == GRAD)
                    timings = measure(
                        target,
                        calls,
                        mode,
                        rounds=options.rounds,
                        number=options.number,
                        advance=step(f"{size} {name}, {mode}"),
                    )
                    measured.append(row(f"{size} {name}", mode, timings))
                rows += measured
                if len(measured) > 1:
                    rows.append(slopes(name, mode, tuple(sizes[name]), measured))
    console.print(table("scaling", rows))
    write(options.json, rows)
    return 0
