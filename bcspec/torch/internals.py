"""Every torch internal that bcspec reaches, each behind one function.

Each says which torch versions it was checked on.  `missing` names those that this torch lacks, so
that a layer is turned off with one clear warning instead of failing in a user's program.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from ..install import record_of

_PROBES: dict[str, Callable[[], Any]] = {}
_CHECKED: dict[str, str] = {}


def internal(checked: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a getter of one torch internal.

    Args:
        checked: torch versions on which its place and behaviour were checked.
    """

    def register(getter: Callable[[], Any]) -> Callable[[], Any]:
        cached = functools.cache(getter)
        _PROBES[getter.__name__] = cached
        _CHECKED[getter.__name__] = checked
        return cached

    return register


def missing() -> list[str]:
    """The internals that this torch lacks, one line each; empty when all are there."""
    found = []
    for name, getter in _PROBES.items():
        try:
            getter()
        except (ImportError, AttributeError) as error:
            found.append(f"{name} (checked on torch {_CHECKED[name]}): {error}")
    return found


def resolve(module: str, qualname: str = "") -> Any:
    """The object `qualname` of a module.

    Raises:
        ImportError, AttributeError: this torch does not have it.
    """
    found: Any = importlib.import_module(module)
    for part in filter(None, qualname.split(".")):
        found = getattr(found, part)
    return found


@internal("2.13 to 2.15")
def aot_autograd_backend() -> type:
    """The class through whose `__call__` every AOTAutograd backend compiles a graph."""
    found = resolve("torch._dynamo.backends.common", "AotAutograd")
    return found if callable(found.__call__) else object


@internal("2.13 to 2.15")
def skip_code() -> Callable[[CodeType], None]:
    """Tells Dynamo never to trace a code object."""
    return resolve("torch._dynamo.eval_frame", "skip_code")


@internal("2.13 to 2.15")
def set_strategy() -> Callable[[CodeType, Any], None]:
    """Tells Dynamo what to do with the frames of a code object."""
    return resolve("torch._C._dynamo.eval_frame", "set_code_exec_strategy")


@internal("2.13 to 2.15")
def skip_all() -> Any:
    """The strategy that leaves alone a frame and the frames of what it calls."""
    module = resolve("torch._C._dynamo.eval_frame")
    return module._FrameExecStrategy(module._FrameAction.SKIP, module._FrameAction.SKIP)


@internal("2.13 to 2.15")
def lookup_backend() -> Callable[[Any], Callable[..., Any]]:
    """The backend registered under a name."""
    return resolve("torch._dynamo.backends.registry", "lookup_backend")


@internal("2.13 to 2.15")
def inductor_wrapper() -> type:
    """What `torch.compile` makes of backend "inductor": applies `mode` and `options`."""
    return resolve("torch", "_TorchCompileInductorWrapper")


@internal("2.13 to 2.15")
def autograd_function() -> type:
    """The public base class of the compiled autograd functions."""
    return resolve("torch.autograd", "Function")


@internal("2.13 to 2.15")
def tensor() -> type:
    """`torch.Tensor`."""
    return resolve("torch", "Tensor")  # type: ignore[no-any-return]


@internal("2.13 to 2.15")
def module() -> type:
    """`torch.nn.Module`."""
    return resolve("torch.nn", "Module")  # type: ignore[no-any-return]


@internal("2.13 to 2.15")
def dict_guard_manager() -> type:
    """The class of guards of a dictionary that is looked at key by key."""
    return resolve("torch._C._dynamo.guards", "DictGuardManager")  # type: ignore[no-any-return]


@internal("2.13 to 2.15")
def config_module() -> type:
    """The class of torch's configuration modules, whose attributes a `__getattr__` looks up."""
    return resolve("torch.utils._config_module", "ConfigModule")


@internal("2.13 to 2.15")
def config_unset() -> Any:
    """What a configuration entry holds where nobody has set it."""
    return resolve("torch.utils._config_module", "_UNSET_SENTINEL")


@internal("2.13 to 2.15")
def optimize_context() -> type:
    """The class of the object whose `__call__` makes the wrapper that `torch.compile` returns."""
    found = resolve("torch._dynamo.eval_frame", "OptimizeContext")
    return found if callable(found.__call__) else object


@internal("2.13 to 2.15")
def register_frame_hook() -> Callable[[Callable[[CodeType, CodeType], None]], Any]:
    """Registers a function that is given each frame that Dynamo transforms, before and after."""
    return resolve("torch._dynamo.convert_frame", "register_bytecode_hook")


@internal("2.13 to 2.15")
def cache_entries() -> Callable[[CodeType, int], list[Any]]:
    """Dynamo's cache entries for a code object, most recently used first.

    An entry must not outlive the moment: one that is kept across `torch._dynamo.reset()` dangles.
    """
    return resolve("torch._C._dynamo.eval_frame", "_get_cache_entries_for_region")


@internal("2.13 to 2.15")
def innermost_backend() -> Callable[[Any], Any]:
    """The backend behind one of Dynamo's callbacks."""
    return resolve("torch._dynamo.eval_frame", "innermost_backend")


def registered_backend(callback: Any) -> Any:
    """The function that was registered as a backend, without what `torch.compile` puts around it.

    Checked on torch 2.13 to 2.15.
    """
    backend = innermost_backend()(callback)
    return getattr(backend, "compiler_fn", backend)


@internal("2.13 to 2.15")
def stance_is_default() -> Callable[[], bool]:
    """Whether `torch.compiler.set_stance` has changed nothing."""
    eval_frame = resolve("torch._dynamo.eval_frame")
    default = eval_frame.DynamoStance()
    return lambda: eval_frame._stance == default


@internal("2.13 to 2.15")
def optimized_module() -> type:
    """The class of what `torch.compile` makes of a module."""
    found = resolve("torch._dynamo.eval_frame", "OptimizedModule")
    return found if callable(found._initialize) else object


@internal("2.13 to 2.15")
def module_call() -> Any:
    """The function that runs when a module is called."""
    return resolve("torch.nn", "Module._wrapped_call_impl")


@internal("2.13 to 2.15")
def global_module_hooks() -> tuple[Any, ...]:
    """The tables of hooks that run in every call of a module."""
    module = resolve("torch.nn.modules.module")
    return (
        module._global_backward_pre_hooks,
        module._global_backward_hooks,
        module._global_forward_pre_hooks,
        module._global_forward_hooks,
        module._global_forward_hooks_always_called,
        module._global_forward_hooks_with_kwargs,
    )


@internal("2.13 to 2.15")
def current_compile_id() -> Callable[[], Any]:
    """The compile that goes on in this thread, or None."""
    return resolve("torch._guards", "CompileContext.current_compile_id")


@internal("2.13 to 2.15")
def skipped() -> Callable[[CodeType], bool]:
    """Whether Dynamo leaves a frame of a code object alone."""
    return resolve("torch._dynamo.trace_rules", "check")  # type: ignore[no-any-return]


def is_helper_of_torch(function: Any) -> bool:
    """Whether `function` is one of torch's own, whose frames Dynamo leaves alone."""
    return (
        isinstance(function, FunctionType)
        and function.__module__.partition(".")[0] == "torch"
        and skipped()(function.__code__)
    )


@internal("2.13 to 2.15")
def assert_size_stride() -> Callable[..., None]:
    """What Inductor's generated code calls for each input."""
    return resolve("torch._C._dynamo.guards", "assert_size_stride")  # type: ignore[no-any-return]


def assert_size_stride_grouped() -> tuple[Callable[..., None], ...]:
    """What it calls for all inputs at once, on a torch (checked on 2.15) that has it."""
    function = getattr(resolve("torch._C._dynamo.guards"), "assert_size_stride_grouped", None)
    return () if function is None else (function,)


@internal("2.13 to 2.15")
def grad_mode() -> tuple[Callable[[], bool], Callable[[bool], None]]:
    """What reads grad mode, and what sets it."""
    torch_c = resolve("torch._C")
    return torch_c.is_grad_enabled, torch_c._set_grad_enabled


@internal("2.13 to 2.15")
def unwrap_if_dead() -> Callable[[Any], Any]:
    """What an autograd function calls for each tensor: gives it, unless functorch wrapped it once."""
    return resolve("torch._C._functorch", "unwrap_if_dead")  # type: ignore[no-any-return]


@internal("2.13 to 2.15")
def guard_manager() -> type:
    """The class whose `add_lambda_guard(function, ...)` adds a guard written in Python."""
    found = resolve("torch._C._dynamo.guards", "GuardManager")
    return found if callable(found.add_lambda_guard) else object


@internal("2.13 to 2.15")
def inductor_graph() -> type:
    """The class of a graph that Inductor has compiled."""
    return resolve("torch._inductor.output_code", "CompiledFxGraph")


#: What Dynamo's frames call around a graph: recording for the profiler, sizes of tensors.
FRAME_HELPERS = (
    "record_pregraph_bytecode_enter",
    "record_pregraph_bytecode_exit",
    "call_size",
    "call_stride",
    "call_storage_offset",
)


@internal("2.13 to 2.15")
def frame_helper_module() -> Any:
    """The module that defines the frame helpers, each with `disable` around it."""
    module = resolve("torch._dynamo.utils")
    for name in FRAME_HELPERS:
        inspect.unwrap(getattr(module, name))
    return module


def is_frame_helper(function: Any) -> bool:
    """Whether `function` is one of the helpers, or what stands in its place."""
    plain = inspect.unwrap(function) if isinstance(function, FunctionType) else None
    module = frame_helper_module()
    return any(plain is inspect.unwrap(getattr(module, name)) for name in FRAME_HELPERS)


class DisableWrapper:
    """A `torch._dynamo.disable` wrapper, and the function that it calls.

    Checked on torch 2.13: the wrapper finds the function in its closure cell `fn`; Dynamo, which
    unwraps and wraps it again, finds it in an attribute.
    """

    def __init__(self, wrapper: FunctionType, cell: CellType) -> None:
        self.wrapper = wrapper
        self.cell = cell

    @classmethod
    def of(cls, function: Any) -> DisableWrapper | None:
        """`function` as a wrapper, None if it is none."""
        if not isinstance(function, FunctionType):
            return None
        wrapped = function.__dict__.get(_WRAPPED)
        names = function.__code__.co_freevars
        if wrapped is None or "fn" not in names:
            return None
        cell = (function.__closure__ or ())[names.index("fn")]
        return cls(function, cell) if cell.cell_contents is wrapped else None

    @property
    def function(self) -> Any:
        """What the wrapper calls."""
        return self.cell.cell_contents

    @function.setter
    def function(self, function: Any) -> None:
        self.cell.cell_contents = function
        setattr(self.wrapper, _WRAPPED, function)


#: What Dynamo's context may run around each call, by what made it: a patch of its own configuration,
#: read while a frame is compiled, and the tagging of module classes, done once.
_AROUND_CALLS = (
    "ConfigModule._make_closure_patcher.<locals>.change",
    "_TorchDynamoContext.__init__.<locals>.call_on_enter",
)


def matters_for_compiling_only(hook: Any) -> bool:
    """Whether what a context runs around each call is without effect when nothing is compiled."""
    return getattr(hook, "__qualname__", None) in _AROUND_CALLS


_WRAPPED = "_torchdynamo_orig_callable"

#: Frames that may stand between a compiled graph and the frame whose globals name it.
_CALLERS = 6


def callers_of(function: Any) -> list[tuple[dict[str, Any], str, DisableWrapper]]:
    """Where Dynamo's frames, which call us, hold a `disable` wrapper around a function.

    Dynamo wraps what a backend returns once more, and keeps that wrapper as a global of the frame
    that it transformed.  Checked on torch 2.13 to 2.15.

    Args:
        function: what the wrappers call; it runs now.

    Returns:
        The globals, the name in them, and the wrapper.
    """
    found: dict[int, tuple[dict[str, Any], str, DisableWrapper]] = {}
    frame = sys._getframe(1)
    for _ in range(_CALLERS):
        for name, value in list(frame.f_globals.items()):
            wrapper = DisableWrapper.of(value)
            if wrapper is not None and wrapper.function is function:
                found[id(value)] = (frame.f_globals, name, wrapper)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return list(found.values())


def keep_dynamo_out(function: Any, of_callees: bool = False) -> None:
    """Have Dynamo never trace the frames of a function.

    Args:
        function: one of ours.
        of_callees: nor those of what it calls, as `torch._dynamo.disable` does.
    """
    record = record_of(function)
    for code in (function.__code__, record.trampoline if record is not None else None):
        if code is None:
            continue
        if of_callees:
            set_strategy()(code, skip_all())
        else:
            skip_code()(code)
