"""How a compiled function is called: the shapes of calls, and functions made for one of them.

Passing arguments on as `*args, **kwargs` costs a tuple, a dictionary and a new interpreter loop at each frame.
A direct way takes exactly the arguments of one shape, and the function in front of it passes them one by one.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
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


#: The name of the function that makes one of ours from a text, as `Knowledge.constant_cells` has it.
MAKER = f"{__name__}.make"


def exactly(shape: Shape, core: FunctionType) -> FunctionType:
    """A function of the arguments of one shape, by position, keyword arguments last.

    Args:
        shape: how users call it.
        core: called with a tuple of the positional arguments and a tuple of the others. The
            function stands in its file, at its line.
    """
    args = [f"arg_{i}" for i in range(shape.count)]
    values = [f"keyword_{i}" for i in range(len(shape.keywords))]
    text = (
        f"def make(core):\n"
        f" def {core.__name__}({parameters(args + values)}):\n"
        f"  return core({displayed(args)}, {displayed(values)})\n"
        f" return {core.__name__}"
    )
    return made(text, core.__code__)(core)


def displayed(names: list[str]) -> str:
    """A tuple of variables as source."""
    return f"({''.join(f'{name}, ' for name in names)})"


def parameters(names: list[str], rest: str = "", default: str = "") -> str:
    """Positional-only parameters as source, and what comes after them."""
    each = "".join(f"{name}{default}, " for name in names)
    return f"{each}/, {rest}" if names else rest


def made(text: str, place: CodeType) -> Callable[..., Any]:
    """The function `make` that a text defines; all of it stands where a code object begins."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = place.co_firstlineno  # type: ignore[attr-defined]
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(tree, place.co_filename, "exec"), namespace)
    return namespace["make"]  # type: ignore[no-any-return]


def compiled_function(entry: Any) -> FunctionType:
    """The function in front of an entry, for calls of any shape.

    Args:
        entry: has `call`, for any call, and `direct`, for calls with a certain number of positional
            arguments and no others.
    """

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return entry.call(*args, **kwargs)

    assert isinstance(compiled, FunctionType)
    internals.keep_dynamo_out(compiled)
    return compiled


def prefer(compiled: FunctionType, count: int, entry: Any) -> None:
    """Have calls with `count` positional arguments and no others go to `entry.direct`.

    Args:
        compiled: what `compiled_function` made. It is the object that users hold: only its code can change.
        count: number of arguments.
        entry: its entry; as a default value it stands for an argument that was not given.
    """
    # In this order, since another thread may call it: the old code has no use for default values.
    compiled.__defaults__ = (entry,) * count or None
    compiled.__code__ = preferring(count)


@functools.cache
def preferring(count: int) -> CodeType:
    """The code of a function in front of an entry that looks for one shape first."""
    names = [f"arg_{i}" for i in range(count)]
    missing = f"{names[-1]} is entry or " if names else ""
    given = f"*[arg for arg in {displayed(names)} if arg is not entry], " if names else ""
    text = (
        f"def make(entry):\n"
        f" def compiled({parameters(names, '*args, **kwargs', '=entry')}):\n"
        f"  if {missing}args or kwargs:\n"
        f"   return entry.call({given}*args, **kwargs)\n"
        f"  return entry.direct({', '.join(names)})\n"
        f" return compiled"
    )
    function = made(text, compiled_function.__code__)(None)
    internals.keep_dynamo_out(function)
    return function.__code__  # type: ignore[no-any-return]
