"""The floor: Inductor's generated `call` of a program's graphs alone, with their list of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bcspec.torch.chain import is_inductor_graph, reachable
from bcspec.torch.internals import DisableWrapper


def bare_calls(function: Callable[..., Any], *args: Any) -> Callable[[], object]:
    """The forward graphs of one call, run as the call ran them.

    Args:
        function: with a code object of its own; Dynamo's caches belong to code objects.
        args: its arguments.
    """
    graphs: list[Any] = []

    def capture(gm: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx

        compiled = compile_fx(gm, inputs)
        graphs.extend(inductor_graphs(compiled))
        return compiled

    compiled = torch.compile(function, backend=capture)
    compiled(*args)
    recorded: list[tuple[Callable[..., Any], list[Any]]] = []
    generic = [graph.current_callable for graph in graphs]
    for graph, call in zip(graphs, generic, strict=True):
        graph.current_callable = recording(call, recorded)
    compiled(*args)
    for graph, call in zip(graphs, generic, strict=True):
        graph.current_callable = call
    run = in_turn(recorded)
    return without_gradients(run) if torch.is_grad_enabled() else run


def in_turn(recorded: list[tuple[Callable[..., Any], list[Any]]]) -> Callable[[], object]:
    """Calls each of the recorded graphs with its inputs."""
    if len(recorded) == 1:
        ((call, inputs),) = recorded
        return lambda: call([*inputs])

    def run() -> None:
        for call, inputs in recorded:
            call([*inputs])

    return run


def without_gradients(run: Callable[[], object]) -> Callable[[], object]:
    """Runs graphs as autograd's C code does: kernels that write into outputs want no gradients."""
    switch = torch._C._set_grad_enabled

    def switched() -> None:
        switch(False)
        run()
        switch(True)

    return switched


def inductor_graphs(compiled: Any) -> list[Any]:
    """The graphs that run in a forward call of what a backend returned."""
    wrapper = DisableWrapper.of(compiled)
    assert wrapper is not None, "the backend returned no disable wrapper"
    return [part for part in reachable(wrapper.function) if is_inductor_graph(part)]


def recording(call: Callable[..., Any], recorded: list[Any]) -> Callable[..., Any]:
    """`call`, which notes what it is called with (the list is emptied by the callee)."""

    def record(inputs: list[Any]) -> Any:
        recorded.append((call, [*inputs]))
        return call(inputs)

    return record
