"""Torch's generic wrappers beside the source that torch generates from them, for many graphs.

torch ships readable reference implementations of its runtime wrappers and, next to them, generators
that write the same thing as straight-line source.  For each program this module compiles a graph,
takes its metadata, and gives three callables over one stubbed kernel: the generic methods, torch's
generated function, and the generic methods specialised by bcspec.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # before the modules below, which import each other
from torch._functorch._aot_autograd import runtime_wrappers as wrappers

import bcspec
from bcspec.torch.chain import graph_knowledge, is_compiled_function, reachable


@dataclass(frozen=True)
class Variant:
    """A program whose graph has one kind of metadata.

    Attributes:
        function: what is compiled.
        inputs: fresh arguments.
        part: "runtime" for the wrapper around the graph, "autograd" for what `forward` does.
        dynamic: compile with symbolic sizes.
    """

    function: Callable[..., Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    part: str = "runtime"
    dynamic: bool = False


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def plain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def mutates_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * y


def mutates_metadata(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x.sum() * y


def intermediate_base(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y.view(-1), y[0]


def outputs(count: int) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    return lambda x: tuple(x * scale for scale in range(1, count + 1))


def some_integer(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2, (x > 0).to(torch.int64)


VARIANTS: dict[str, Variant] = {
    "no mutation, inference": Variant(lambda x: x + 1, lambda: (plain(4),)),
    "no mutation, training": Variant(lambda x: x + 1, lambda: (leaf(4),)),
    "input that needs no gradient": Variant(lambda x, y: x * y, lambda: (leaf(4), plain(4))),
    "data mutation": Variant(mutates_data, lambda: (plain(4), leaf(4))),
    "metadata mutation": Variant(mutates_metadata, lambda: (plain(2, 3), leaf(3))),
    "alias of input, inference": Variant(lambda x: (x.view(-1), x + 1), lambda: (plain(2, 2),)),
    "alias of input, training": Variant(lambda x: (x.view(-1), x + 1), lambda: (leaf(2, 2),)),
    "is input": Variant(lambda x: (x, x + 1), lambda: (leaf(4),)),
    "intermediate base": Variant(intermediate_base, lambda: (leaf(2, 2),)),
    "dynamic outputs": Variant(lambda x: x * 2, lambda: (leaf(5, 3),), dynamic=True),
    "20 outputs": Variant(outputs(20), lambda: (leaf(4),)),
    "unsafe view": Variant(lambda x: (x * 2).view(-1), lambda: (leaf(2, 2),), "autograd"),
    "saved with version check": Variant(lambda x, y: x * y, lambda: (leaf(4), leaf(4)), "autograd"),
    "saved without version check": Variant(lambda x: x.sin().exp(), lambda: (leaf(4),), "autograd"),
    "symbolic sizes": Variant(lambda x: x.sin() * x.shape[0], lambda: (leaf(5),), "autograd", True),
    "not differentiable": Variant(some_integer, lambda: (leaf(4),), "autograd"),
    "alias wrapped": Variant(lambda x: (x.view(-1), x * 2), lambda: (leaf(2, 2),), "autograd"),
    **{
        f"forward, {count} outputs": Variant(outputs(count), lambda: (leaf(4),), "autograd")
        for count in (1, 2, 5, 10, 50)
    },
}


@dataclass
class Captured:
    """What torch made for one graph."""

    created: dict[str, Any] = field(default_factory=dict)
    wrapper: FunctionType | None = None
    graph_outputs: Any = None
    autograd: type | None = None
    forward_outputs: Any = None


@contextlib.contextmanager
def capturing(captured: Captured) -> Iterator[None]:
    """Record how the runtime wrapper is made, and what its graph returns."""
    create = wrappers._create_runtime_wrapper

    def recording_create(compiled_fn: Any, **metadata: Any) -> Any:
        boxed = compiled_fn
        if not getattr(compiled_fn, "_boxed_call", False):
            boxed = wrappers.make_boxed_func(compiled_fn)

        def recorded(args: list[Any]) -> Any:
            captured.graph_outputs = boxed(args)
            return captured.graph_outputs

        recorded._boxed_call = True  # type: ignore[attr-defined]
        for part in filter(is_compiled_function, reachable(boxed)):
            record_forward(part, captured)
        captured.created = metadata
        captured.wrapper = create(recorded, **metadata)
        return captured.wrapper

    with mock.patch.object(wrappers, "_create_runtime_wrapper", recording_create):
        yield


def record_forward(cls: Any, captured: Captured) -> None:
    """Record what the compiled forward of an autograd function returns."""
    captured.autograd = cls
    generic = cls.compiled_fw

    def recorded(args: list[Any]) -> Any:
        captured.forward_outputs = generic(args)
        return captured.forward_outputs

    recorded._boxed_call = True  # type: ignore[attr-defined]
    cls.compiled_fw = recorded


@dataclass(frozen=True)
class Case:
    """Three callables that do the same, and how to call them.

    Attributes:
        generic, generated, specialised: called with what `arguments` gives.
        arguments: positional arguments of a fresh call, for the first two.
        before: what torch's generated function takes in front of them.
        after: what it takes behind them.
    """

    name: str
    generic: Callable[..., Any]
    generated: Callable[..., Any]
    specialised: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    part: str
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


class Context(torch.autograd.function.FunctionCtx):
    """Stands for the node that C `apply` makes."""


def nothing() -> None:
    """Stands for the end of the profiler's prologue."""


def build(name: str) -> Case:
    """Compile the program of a variant and make its three callables."""
    variant = VARIANTS[name]
    captured = Captured()
    torch._dynamo.reset()
    inputs = variant.inputs()
    with capturing(captured):
        compiled = torch.compile(variant.function, backend="aot_eager", dynamic=variant.dynamic)
        compiled(*variant.inputs())
        compiled(*inputs)
    return PARTS[variant.part](name, captured, inputs)


def stub(results: Any) -> Callable[[list[Any]], Any]:
    """A kernel that gives the same results at every call, and lets go of its arguments.

    Like Inductor's `call` it is generated source that ends in a tuple of known length; what is in
    the tuple is not known (a deque is nobody's frozen metadata).
    """
    names = ", ".join(f"results[{index}]" for index in range(len(results)))
    source = f"def kernel(args):\n    args.clear()\n    return ({names},)\n"
    namespace: dict[str, Any] = {"results": deque(results)}
    exec(compile(source, "<kernel>", "exec"), namespace)
    kernel = namespace["kernel"]
    kernel._boxed_call = True
    return kernel


def specialise(generic: FunctionType, **types: type) -> Callable[..., Any]:
    """The generic wrapper for the metadata it closes over; the profiler's hook stays a call."""
    knowledge = graph_knowledge(reachable(generic))
    knowledge.no_unfold[nothing] = "stands for the profiler's hook"
    return bcspec.partial_eval(generic, knowledge=knowledge, types=types, strict=True)


def runtime_case(name: str, captured: Captured, inputs: tuple[torch.Tensor, ...]) -> Case:
    """The wrapper around the whole graph."""
    made = captured.created
    assert captured.wrapper is not None
    kernel = stub(captured.graph_outputs)
    invoker = wrappers._RuntimeCompiledFnInvoker(
        compiled_fn=kernel,
        indices_of_inps_to_detach=made["indices_of_inps_to_detach"],
        trace_joint=made["trace_joint"],
        disable_amp=made["disable_amp"],
    )
    epilogue = wrappers._RuntimeForwardEpilogue(
        runtime_metadata=made["runtime_metadata"],
        trace_joint=made["trace_joint"],
        keep_input_mutations=made["keep_input_mutations"],
    )
    generic = generic_runtime_wrapper(invoker, epilogue)
    names = captured.wrapper.__code__.co_freevars
    cells = dict(zip(names, captured.wrapper.__closure__ or ()))
    generated = cells["_codegen_runtime_wrapper"].cell_contents
    generic(list(inputs))
    first = invoker.first_invocation_ctx
    fast = specialise(generic)
    return Case(name, generic, generated, fast, inputs, "runtime", (kernel, first, nothing))


def generic_runtime_wrapper(invoker: Any, epilogue: Any) -> FunctionType:
    """What torch's generated wrapper stands for, through the reference methods."""

    def runtime_wrapper(args: list[Any]) -> Any:
        orig_inputs = epilogue.capture_orig_inputs(args)
        epilogue.increment_mutation_versions(args)
        all_outs = invoker.run(args, on_before_call=nothing)
        del args
        return epilogue.finalize(orig_inputs, all_outs)

    return runtime_wrapper  # type: ignore[return-value]


def autograd_case(name: str, captured: Captured, inputs: tuple[torch.Tensor, ...]) -> Case:
    """What `CompiledFunction.forward` does around the compiled forward."""
    cls: Any = captured.autograd
    kernel = stub(captured.forward_outputs)
    saved = wrappers._AutogradSavedState(cls.metadata)
    epilogue = wrappers._AutogradForwardEpilogue(cls.metadata)
    generic = generic_forward(kernel, saved, epilogue)
    cells = dict(zip(cls.forward.__code__.co_freevars, cls.forward.__closure__))
    after = (
        cells["rng_state"].cell_contents.add_forward_args,
        cells["saved_state"].cell_contents.save_from_forward,
        cells["forward_epilogue"].cell_contents.finalize,
        kernel,
    )
    generic(Context(), inputs)
    fast = specialise(generic, ctx=Context)
    return Case(name, generic, cls._fwd_fn, fast, inputs, "autograd", after=after)


def generic_forward(kernel: Any, saved: Any, epilogue: Any) -> FunctionType:
    """The compiled forward and its bookkeeping, through the reference methods."""

    def forward(ctx: Any, args: tuple[Any, ...]) -> Any:
        fw_outs = wrappers.call_func_at_runtime_with_args(kernel, args)
        saved.save_from_forward(ctx, fw_outs)
        return epilogue.finalize(ctx, fw_outs)

    return forward  # type: ignore[return-value]


PARTS: dict[str, Callable[[str, Captured, tuple[torch.Tensor, ...]], Case]] = {
    "runtime": runtime_case,
    "autograd": autograd_case,
}


def call_of(case: Case, which: str) -> Callable[[], Any]:
    """A call without arguments of one of the three."""
    function = getattr(case, which)
    inputs, before, after = case.inputs, case.before, case.after
    if case.part == "autograd":
        if which == "generated":
            return lambda: function(Context(), inputs, *after)
        return lambda: function(Context(), inputs)
    if which == "generated":
        return lambda: function(*before, list(inputs))
    return lambda: function(list(inputs))
