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
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from . import internals


@dataclass(frozen=True)
class Target:
    """What a compiled function runs.

    Attributes:
        function: the one whose frame Dynamo compiles.
        lead: what comes before the arguments of the call: the instance of a method.
        modules: modules whose calls lead there, as long as they have no hooks.
    """

    function: FunctionType
    lead: tuple[Any, ...] = ()
    modules: tuple[Any, ...] = ()

    @classmethod
    def of(cls, called: Any, *wrappers: Any) -> Target | None:
        """The target behind what Dynamo's wrapper calls; None if it is of no known kind.

        Args:
            called: a function, a bound method, or the call of a module, whose `forward` Dynamo compiles.
            wrappers: modules around it.
        """
        if isinstance(called, FunctionType):
            return cls(called, modules=wrappers)
        if not isinstance(called, MethodType) or not isinstance(called.__func__, FunctionType):
            return None
        if called.__func__ is not internals.module_call():
            return cls(called.__func__, (called.__self__,), wrappers)
        module = called.__self__
        forward = getattr(module, "forward", None)
        if not isinstance(forward, MethodType) or forward.__self__ is not module:
            return None
        if not isinstance(forward.__func__, FunctionType):
            return None
        return cls(forward.__func__, (module,), (*wrappers, module))


@dataclass(frozen=True)
class Shape:
    """How a function is called, and the variables of its frame that this fills.

    Attributes:
        function: the user's function.
        lead: the instance of a bound method, if it is one.
        count: number of positional arguments.
        keywords: names of keyword arguments, in the order of the call.
    """

    function: FunctionType
    lead: tuple[Any, ...]
    count: int
    keywords: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape | None:
        """The shape of one call; None if it would raise."""
        shape = cls(target.function, target.lead, len(args), tuple(kwargs))
        return shape if shape.fits() else None

    @property
    def code(self) -> CodeType:
        """The code whose frame Dynamo looked at."""
        return self.function.__code__

    def fits(self) -> bool:
        """Whether each parameter gets one argument, or has a default."""
        code = self.code
        names = code.co_varnames[: code.co_argcount]
        given = len(self.lead) + self.count
        if given > len(names) and not code.co_flags & _VARARGS:
            return False
        by_name = {*names[max(given, code.co_posonlyargcount) :], *self.keyword_only}
        needed = {*names[given:], *self.keyword_only} - set(self.keywords)
        return by_name.issuperset(self.keywords) and needed.issubset(self.defaults)

    @property
    def keyword_only(self) -> tuple[str, ...]:
        """Keyword-only parameters."""
        code = self.code
        return code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of all parameters that have one."""
        code, values = self.code, self.function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        with_default = names[len(names) - len(values) :]
        return {**dict(zip(with_default, values)), **(self.function.__kwdefaults__ or {})}

    @property
    def defaulted(self) -> tuple[tuple[str, Any], ...]:
        """Parameters that the call leaves out, and what they get."""
        given = {*self.positional, *self.keywords}
        return tuple(item for item in self.defaults.items() if item[0] not in given)

    @property
    def positional(self) -> tuple[str, ...]:
        """Parameters filled by position."""
        code = self.code
        return code.co_varnames[: min(code.co_argcount, len(self.lead) + self.count)]

    @property
    def star(self) -> str | None:
        """The ``*args`` parameter."""
        code = self.code
        names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
        return names[0] if code.co_flags & _VARARGS else None

    @property
    def double_star(self) -> str | None:
        """The ``**kwargs`` parameter; a call that fits leaves it empty."""
        code = self.code
        names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
        return names[bool(code.co_flags & _VARARGS)] if code.co_flags & _VARKEYWORDS else None


_VARARGS, _VARKEYWORDS = 0x04, 0x08


def make_unusual() -> Callable[[], bool]:
    """A function that tells whether anything is going on that the direct way does not know.

    Compiling (Dynamo's callback is set, a tracing context), exporting, tracing by `torch.fx` or
    `torch.jit`, a stance, a profiler that wants its events, a debugger.  Checked on torch 2.13.
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
        return (
            callback() is not None
            or tracing_context() is not None
            or is_exporting()
            or is_fx_tracing()
            or is_jit_tracing()
            or eval_frame._stance is not default
            or profiler._is_profiler_enabled
            or gettrace() is not None
        )

    return unusual


def make_plain(target: Target) -> Callable[[], bool]:
    """A function that tells whether calling the modules of a target does no more than call its `forward`.

    Checked on torch 2.13 (`torch.nn.modules.module`, `_wrapped_call_impl` and `_call_impl`).
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
        A function with the arguments of the user's function, and one that says what is called when
        the direct way is not taken.
    """
    unusual, plain = make_unusual(), make_plain(target)
    lead, count, keywords = shape.lead, shape.count, shape.keywords
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

    def variables(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        found = dict(zip(positional, args))
        if star is not None:
            found[star] = args[len(positional) :]
        for name in keywords:
            found[name] = kwargs[name]
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

    def direct(*args: Any, **kwargs: Any) -> Any:
        if len(args) != count or unusual() or not plain():
            return missed(*args, **kwargs)  # type: ignore[misc]
        if defaulted and (
            function.__defaults__ is not defaults or function.__kwdefaults__ is not kwdefaults
        ):
            return missed(*args, **kwargs)  # type: ignore[misc]
        if keywords:
            if tuple(kwargs) != keywords:
                return missed(*args, **kwargs)  # type: ignore[misc]
        elif kwargs:
            return missed(*args, **kwargs)  # type: ignore[misc]
        try:
            found = variables(lead + args, kwargs)
        except ValueError:  # a closure variable without a value
            return missed(*args, **kwargs)  # type: ignore[misc]
        if not check(found):
            return missed(*args, **kwargs)  # type: ignore[misc]
        del found
        return run(lead + args, {name: kwargs[name] for name in keywords})

    return direct, link
