"""Many kinds of compiled calls: eager, stock `torch.compile`, bcspec, and the bare graphs."""

from __future__ import annotations

import argparse
import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from rich.console import Console

from .floor import bare_calls
from .measure import Timing, interleaved
from .overheads import WARM_UP, fresh_copy
from .report import add_arguments, geometric_mean, progress_bar, row, table, write

GRAD = "grad"
NO_GRAD = "no_grad"
FORWARD_AND_BACKWARD = "fwd+bwd"
STEP = "fwd+bwd+step"


@dataclass(frozen=True)
class Case:
    """One row or more of the table.

    Attributes:
        make: gives the function to compile (or a module) and its arguments; they require gradients
            where the mode does.
        modes: of running it.
        options: of `torch.compile`.
    """

    make: Callable[[bool], tuple[Any, tuple[Any, ...]]]
    modes: tuple[str, ...] = (NO_GRAD, GRAD)
    options: tuple[tuple[str, Any], ...] = ()


def leaf(grad: bool, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=grad)


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 2),
    )


def add_many(*xs: torch.Tensor) -> torch.Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def add_in_place(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


def mutate_with_grad(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    return x * y


def view(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 2)


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


def intermediate_base(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + 1
    return y.view(-1), y


def scaled_by_size(x: torch.Tensor) -> torch.Tensor:
    return x * x.shape[0]


def graph_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5)


def twenty(x: torch.Tensor) -> list[torch.Tensor]:
    return [x + i for i in range(20)]


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def encoder_layer(_: bool) -> tuple[Any, tuple[Any, ...]]:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return layer, (torch.randn(2, 4, 16),)


def of(function: Callable[..., Any], *shape: int) -> Callable[[bool], tuple[Any, tuple[Any, ...]]]:
    """A function of one tensor."""
    return lambda grad: (function, (leaf(grad, *shape),))


CASES: dict[str, Case] = {
    "add one": Case(of(add_one, 4), (NO_GRAD, GRAD, FORWARD_AND_BACKWARD)),
    "100 inputs": Case(lambda g: (add_many, tuple(leaf(g, 4) for _ in range(100)))),
    "Linear(4, 4)": Case(
        lambda g: (torch.nn.Linear(4, 4), (torch.randn(2, 4),)),
        (NO_GRAD, GRAD, FORWARD_AND_BACKWARD),
    ),
    "small MLP": Case(
        lambda g: (mlp(), (torch.randn(3, 4),)), (NO_GRAD, GRAD, FORWARD_AND_BACKWARD, STEP)
    ),
    "input mutation": Case(of(add_in_place, 4), (NO_GRAD,)),
    "mutation with grad": Case(lambda g: (mutate_with_grad, (leaf(g, 4), torch.randn(4))), (GRAD,)),
    "output is a view": Case(of(view, 4)),
    "output is the input": Case(of(identity, 4), (NO_GRAD,)),
    "intermediate base": Case(of(intermediate_base, 4)),
    "dynamic shape": Case(of(scaled_by_size, 4), options=(("dynamic", True),)),
    "graph break": Case(of(graph_break, 4)),
    "autocast Linear": Case(lambda g: (autocast_linear(), (torch.randn(2, 4),)), (GRAD,)),
    "dropout": Case(of(dropout, 4)),
    "20 outputs": Case(of(twenty, 4)),
    "encoder layer": Case(encoder_layer, (NO_GRAD, GRAD)),
}


def autocast_linear() -> Callable[..., Any]:
    layer = torch.nn.Linear(4, 4)

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)

    return run


def own_copy(target: Any) -> Any:
    """A function or module of its own: what is compiled for it serves nothing else."""
    return fresh_copy(target) if isinstance(target, FunctionType) else copy.deepcopy(target)


def outputs_of(result: Any) -> list[torch.Tensor]:
    found = result if isinstance(result, (list, tuple)) else [result]
    return [each for each in found if each.requires_grad]


def call_of(target: Any, calls: Sequence[tuple[Any, ...]], mode: str) -> Callable[[], object]:
    """One call in a mode, or one with each of several argument lists, without arguments."""
    if mode in (NO_GRAD, GRAD):
        return once(target, calls)
    optimizer = None
    if mode == STEP:
        optimizer = torch.optim.SGD(target.parameters(), lr=0.01)
    (args,) = calls

    def run() -> None:
        outputs = outputs_of(target(*args))
        torch.autograd.backward([each.sum() for each in outputs])
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()

    return run


def once(target: Any, calls: Sequence[tuple[Any, ...]]) -> Callable[[], object]:
    """One forward call with each argument list; with a single one, without a loop around it."""
    if len(calls) == 1:
        (args,) = calls
        return lambda: target(*args)

    def run() -> None:
        for args in calls:
            target(*args)

    return run


def candidates(
    target: Any, calls: Sequence[tuple[Any, ...]], mode: str, **options: Any
) -> dict[str, Callable[[], object]]:
    """One warm call per column.

    Args:
        target: a function or module.
        calls: its arguments, for each call; the floor is measured where there is one.
        mode: of running it.
        options: of `torch.compile`.
    """
    ours = torch.compile(own_copy(target), backend="bcspec", **options)
    found = {
        "eager": call_of(own_copy(target), calls, mode),
        "stock": call_of(torch.compile(own_copy(target), **options), calls, mode),
        "bcspec": call_of(ours, calls, mode),
    }
    if mode in (NO_GRAD, GRAD) and len(calls) == 1:
        found["floor"] = bare_calls(own_copy(target), *calls[0])
    for call in found.values():
        for _ in range(WARM_UP):
            call()
    return found


def measure(
    target: Any,
    calls: Sequence[tuple[Any, ...]],
    mode: str,
    *,
    rounds: int,
    number: int,
    advance: Callable[[], object],
    **options: Any,
) -> dict[str, Timing]:
    """Time all columns; arguments as for `candidates` and `interleaved`."""
    torch._dynamo.reset()
    with torch.no_grad() if mode == NO_GRAD else contextlib.nullcontext():
        columns = candidates(target, calls, mode, **options)
        return interleaved(columns, rounds=rounds, number=number, advance=advance)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench cases", description=__doc__)
    add_arguments(parser, rounds=60, number=50)
    parser.add_argument("--case", action="append", choices=CASES, help="only this one (repeatable)")
    options = parser.parse_args(argv)
    console = Console()
    chosen = options.case or list(CASES)
    rows = []
    with progress_bar(console, sum(len(CASES[c].modes) for c in chosen) * options.rounds) as step:
        for name in chosen:
            for mode in CASES[name].modes:
                target, args = CASES[name].make(mode != NO_GRAD)
                timings = measure(
                    target,
                    [args],
                    mode,
                    rounds=options.rounds,
                    number=options.number,
                    advance=step(f"{name}, {mode}"),
                    **dict(CASES[name].options),
                )
                rows.append(row(name, mode, timings))
    console.print(table("cases", rows))
    console.print(f"stock/bcspec, geometric mean: {geometric_mean(rows):.2f}")
    write(options.json, rows)
    return 0
