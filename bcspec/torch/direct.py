"""The direct way into a compiled graph: what a call of a compiled function comes down to.

`make_direct` holds the generic function: nothing unusual is going on, the arguments satisfy Dynamo's own
guards, then the frame that Dynamo made runs; anything else is the business of the generic wrapper.
Specialised for one cache entry, with the frame and the graph's wrappers unfolded, it is the whole
compiled call in one frame.

What the generic wrapper (`torch._dynamo.eval_frame`, `compile_wrapper`) does and this leaves out, and why it
may: it sets Dynamo's callback, saves and restores it around the frame (here there is none, and nothing is called
that Dynamo would look at); it counts frames and marks the stance for a compile (there is none); it undoes
what a frame that raises left of functorch levels and dispatch keys (`restoring` keeps that for
graphs whose code is not known to leave everything in place).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CellType, FunctionType, MethodType
from typing import Any

from . import internals
from .calls import Shape, Target, exactly


def make_unusual() -> Callable[[], bool]:
    """A function that tells whether anything is going on that the direct way does not know.

    Compiling (Dynamo's callback is set, a tracing context), exporting, tracing by `torch.fx` or
    `torch.jit`, a stance, a profiler that wants its events, a debugger.  Checked on torch 2.13 to 2.15.
    """
    eval_frame = internals.resolve("torch._dynamo.eval_frame")
    callback = internals.resolve("torch._C._dynamo.eval_frame", "get_eval_frame_callback")
    tracing_context = internals.resolve("torch._guards", "TracingContext.try_get")
    is_exporting = internals.resolve("torch.compiler", "is_exporting")
    is_fx_tracing = internals.resolve("torch.fx._symbolic_trace", "is_fx_symbolic_tracing")
    is_jit_tracing = internals.resolve("torch._C", "_is_tracing")
    profiler = internals.resolve("torch.autograd.profiler")
    default = eval_frame._stance
    gettrace = sys.gettrace

    def unusual() -> bool:
        # Not one expression: then each operand would be tested here and, as the result, again.
        if callback() is not None or tracing_context() is not None:
            return True
        if is_exporting() or is_fx_tracing() or is_jit_tracing():
            return True
        if eval_frame._stance is not default or profiler._is_profiler_enabled:
            return True
        return gettrace() is not None

    return unusual


def make_plain(target: Target) -> Callable[[], bool]:
    """A function that tells whether calling the modules of a target does no more than call its `forward`.

    Checked on torch 2.13 to 2.15 (`torch.nn.modules.module`, `_wrapped_call_impl` and `_call_impl`).
    """
    registries = internals.global_module_hooks()
    modules = target.modules
    last = modules[-1] if modules and target.lead and target.lead[0] is modules[-1] else None
    forward = MethodType(target.function, last) if last is not None else None

    def plain() -> bool:
        for module in modules:
            if (
                module._compiled_call_impl is not None
                or module._backward_hooks
                or module._backward_pre_hooks
                or module._forward_hooks
                or module._forward_pre_hooks
            ):
                return False
        if modules:
            for registry in registries:
                if registry:
                    return False
        return last is None or last.forward == forward

    return plain


def make_direct(
    target: Target,
    shape: Shape,
    frame: Callable[..., Any],
    check: Callable[[dict[str, Any]], bool],
    restoring: bool,
) -> tuple[Callable[..., Any], Callable[[Callable[..., Any]], None]]:
    """The generic direct way for one cache entry of Dynamo.

    Args:
        target: what it runs.
        shape: how it is called.
        frame: what Dynamo made of the user's function.
        check: the root of the guards: whether given variables of the frame satisfy them.
        restoring: undo what `frame` leaves of functorch levels and dispatch keys when it raises.

    Returns:
        A function of exactly the arguments of such a call, and one that says what is called with
        them when the direct way is not taken.
    """
    unusual, plain = make_unusual(), make_plain(target)
    lead, keywords = shape.lead, shape.keywords
    positional, star, double_star = shape.positional, shape.star, shape.double_star
    cells: tuple[tuple[str, CellType], ...] = tuple(
        zip(shape.code.co_freevars, shape.function.__closure__ or (), strict=True)
    )
    function, defaulted = target.function, shape.defaulted
    defaults, kwdefaults = function.__defaults__, function.__kwdefaults__
    functorch = internals.resolve("torch._C", "_functorch")
    torch_c = internals.resolve("torch._C")
    missed: Callable[..., Any] | None = None

    def link(target: Callable[..., Any]) -> None:
        nonlocal missed
        missed = target

    def variables(args: tuple[Any, ...], values: tuple[Any, ...]) -> dict[str, Any]:
        found = dict(zip(positional, args))
        if star is not None:
            found[star] = args[len(positional) :]
        for name, value in zip(keywords, values):
            found[name] = value
        for name, value in defaulted:
            found[name] = value
        if double_star is not None:
            found[double_star] = {}
        for name, cell in cells:
            found[name] = cell.cell_contents
        return found

    def run(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not restoring:
            return frame(*args, **named)
        depth = functorch.get_dynamic_layer_stack_depth()
        include = torch_c._dispatch_tls_local_include_set()
        exclude = torch_c._dispatch_tls_local_exclude_set()
        with torch_c._ForceDispatchKeyGuard(include, exclude):
            try:
                return frame(*args, **named)
            finally:
                functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)

    def direct(args: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
        if unusual() or not plain():
            return missed(*args, *values)  # type: ignore[misc]
        if defaulted and (
            function.__defaults__ is not defaults or function.__kwdefaults__ is not kwdefaults
        ):
            return missed(*args, *values)  # type: ignore[misc]
        try:
            found = [variables(lead + args, values)]
        except ValueError:  # a closure variable without a value
            return missed(*args, *values)  # type: ignore[misc]
        # Taken out of the list, so that nothing dies between the check and what it says.
        if not check(found.pop()):
            return missed(*args, *values)  # type: ignore[misc]
        return run(lead + args, dict(zip(keywords, values)))

    assert isinstance(direct, FunctionType)
    return exactly(shape, direct), link
