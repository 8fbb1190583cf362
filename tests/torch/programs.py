"""Programs for torch.compile: each gives a function and what to call it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Program:
    """A function, fresh arguments for each call, and parameters that collect gradients."""

    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    module: torch.nn.Module | None = None
    options: tuple[tuple[str, Any], ...] = ()


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def add_one() -> Program:
    return Program(lambda x: x + 1, lambda: (leaf(4),))


def add_one_plain() -> Program:
    return Program(lambda x: x + 1, lambda: (torch.randn(4),))


def linear() -> Program:
    module = torch.nn.Linear(4, 3)
    return Program(lambda x: module(x), lambda: (leaf(2, 4),), module)


def mlp() -> Program:
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, 2),
    )
    return Program(lambda x: module(x), lambda: (torch.randn(3, 4),), module)


def mutated_input() -> Program:
    def f(x):
        x.mul_(2)
        return x + 1

    return Program(f, lambda: (torch.randn(4),))


def mutated_with_grad() -> Program:
    def f(x, y):
        x.add_(y)
        return x.sum() * y

    return Program(f, lambda: (torch.randn(3), leaf(3)))


def mutated_leaf_no_grad() -> Program:
    def f(x):
        with torch.no_grad():
            x.mul_(2)
        return x + 1

    return Program(f, lambda: (leaf(4),))


def transposed_in_place() -> Program:
    def f(x):
        x.t_()
        return x + 1

    return Program(f, lambda: (torch.randn(2, 3),))


def view_output() -> Program:
    return Program(lambda x: x.view(-1), lambda: (torch.randn(2, 2),))


def view_output_with_grad() -> Program:
    return Program(lambda x: (x * 2, x.view(-1)), lambda: (leaf(2, 2),))


def is_input() -> Program:
    return Program(lambda x: (x, x + 1), lambda: (leaf(3),))


def intermediate_base() -> Program:
    def f(x):
        y = x * 2
        return y, y.view(-1)

    return Program(f, lambda: (leaf(2, 2),))


def dropout() -> Program:
    return Program(lambda x: torch.nn.functional.dropout(x * 2, 0.5), lambda: (leaf(16),))


def twenty_outputs() -> Program:
    return Program(lambda x: tuple(x * i for i in range(1, 21)), lambda: (leaf(4),))


def integer_output() -> Program:
    return Program(lambda x: (x * 2, (x > 0).to(torch.int64)), lambda: (leaf(4),))


def dynamic_shape() -> Program:
    sizes = iter(range(3, 100))
    return Program(
        lambda x: x * x.shape[0], lambda: (leaf(next(sizes)),), options=(("dynamic", True),)
    )


def graph_break() -> Program:
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    return Program(f, lambda: (leaf(4),))


def saved_activations() -> Program:
    return Program(lambda x, w: torch.exp(x @ w).sin(), lambda: (leaf(3, 4), leaf(4, 2)))


PROGRAMS: dict[str, Callable[[], Program]] = {
    make.__name__: make
    for make in (
        add_one,
        add_one_plain,
        linear,
        mlp,
        mutated_input,
        mutated_with_grad,
        mutated_leaf_no_grad,
        transposed_in_place,
        view_output,
        view_output_with_grad,
        is_input,
        intermediate_base,
        dropout,
        twenty_outputs,
        integer_output,
        dynamic_shape,
        graph_break,
        saved_activations,
    )
}
