"""What may be taken as constant: cells, globals, and the reasons for it."""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import weakref
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..assume import watchable
from .attributes import DEFINITIONS
from .domain import Const, Frame

if TYPE_CHECKING:
    from .request import Request

_BINDS = {"STORE_DEREF", "DELETE_DEREF"}


def label(frame: Frame) -> str:
    """Module and qualified name of the code of a frame, as `Knowledge` names functions."""
    return f"{frame.globals.get('__name__')}.{frame.source.code.co_qualname}"


def constant_cell(
    request: Request, frame: Frame, name: str, cell: CellType
) -> tuple[str, str] | None:
    """Why the content of a closure cell never changes: (kind of assumption, reason), or None."""
    own = label(frame)
    for prefix, reason in request.knowledge.constant_cells.items():
        if own == prefix or own.startswith(prefix + "."):
            return ("declared", reason)
    if id(cell) in request.knowledge.frozen_objects:
        return ("declared", request.knowledge.frozen_objects[id(cell)][1])
    if request.assume and name == "__class__" and not binds(frame.source.code, name):
        return ("proved", "the cell of a class is bound when the class is made")
    if request.assume and cell_is_settled(frame, name):
        return ("proved", "no remaining code of the enclosing function binds it")
    return None


def cell_is_settled(frame: Frame, name: str) -> bool:
    """Whether no code that can still run binds the closure variable `name` of a frame's function.

    The enclosing function is found by its qualified name; its own activation is over (only plain
    functions are accepted), so only functions nested in it could bind the variable.
    """
    chain = enclosing_codes(frame.globals.get("__name__"), frame.source.code)
    if chain is None:
        return False
    for owner in reversed(chain):
        if name in owner.co_cellvars:
            if owner.co_flags & (0x20 | 0x80 | 0x200):
                return False
            return not any(binds(code, name) for code in nested(owner))
    return False


def enclosing_codes(module_name: Any, code: CodeType) -> list[CodeType] | None:
    """Code objects around `code`, outermost first; None if they cannot be found."""
    module = sys.modules.get(module_name or "")
    names = code.co_qualname.split(".<locals>.")
    if module is None or len(names) < 2:
        return None
    outer: Any = module
    for part in names[0].split("."):
        outer = vars(outer).get(part) if hasattr(outer, "__dict__") else None
        if isinstance(outer, (staticmethod, classmethod)):
            outer = outer.__func__
    for candidate in unwrapped(outer):
        chain = path_to(candidate.__code__, code)
        if chain is not None:
            return chain
    return None


def unwrapped(function: Any) -> list[FunctionType]:
    """`function` and what it wraps, as far as these are Python functions."""
    found: list[FunctionType] = []
    while function is not None and len(found) < 20:
        if isinstance(function, FunctionType):
            found.append(function)
        function = getattr(function, "__wrapped__", None) or getattr(
            function, "__bcspec_generic__", None
        )
    return found


def path_to(outer: CodeType, inner: CodeType) -> list[CodeType] | None:
    """Code objects from `outer` down to the one that contains `inner`."""
    for const in outer.co_consts:
        if const is inner:
            return [outer]
        if isinstance(const, CodeType):
            below = path_to(const, inner)
            if below is not None:
                return [outer, *below]
    return None


def nested(code: CodeType) -> list[CodeType]:
    """All code objects inside `code`."""
    found: list[CodeType] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found += [const, *nested(const)]
    return found


def binds(code: CodeType, name: str) -> bool:
    """Whether `code` may bind its free variable `name`."""
    if name not in code.co_freevars:
        return False
    return any(i.opname in _BINDS and i.argval == name for i in dis.get_instructions(code))


def global_constant(
    request: Request, namespace: dict[str, Any], name: str, builtins_too: bool = True
) -> tuple[Const, str, Any, str] | None:
    """The value of a global name if it may be assumed: (value, kind, owner, reason)."""
    if name in namespace:
        return module_global(request, namespace, name)
    if builtins_too and request.assume and hasattr(builtins, name):
        value = getattr(builtins, name)
        return Const(value), "declared", builtins, "builtins are not replaced"
    return None


def module_global(
    request: Request, namespace: dict[str, Any], name: str
) -> tuple[Const, str, Any, str] | None:
    value = namespace[name]
    constant = Const(value, id(value) in request.knowledge.frozen_objects)
    module_name = namespace.get("__name__")
    knowledge = request.knowledge
    reason = knowledge.stable_globals.get((module_name, name))  # type: ignore[arg-type]
    if reason is not None:
        return constant, "declared", module_name, reason
    for frozen in knowledge.frozen_namespaces:
        why = frozen(namespace)
        if why is not None:
            return constant, "declared", module_name, why
    module = sys.modules.get(module_name or "")
    kinds = (*DEFINITIONS, *knowledge.stable_types)
    if not request.assume or not isinstance(value, kinds):
        return None
    if module_name in knowledge.stable_modules:
        return constant, "declared", module, knowledge.stable_modules[module_name]
    if not isinstance(module, ModuleType) or module.__dict__ is not namespace:
        return None
    if name in rebound_names(module) or is_interactive(module):
        return None
    if (is_running(module) and running_code_binds(namespace, name)) or not watchable(module):
        return None
    return constant, "watched", module, "a definition in a module stays"


def codes_of(module: ModuleType) -> list[CodeType]:
    """The code objects of the functions and methods that a module defines, and those nested in them."""
    found: list[CodeType] = []
    for value in list(vars(module).values()):
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            function = getattr(member, "__func__", member)
            if isinstance(function, FunctionType) and function.__globals__ is vars(module):
                found += [function.__code__, *nested(function.__code__)]
    return found


#: For each module how many variables it had, and which of them its functions bound then.
_rebound: weakref.WeakKeyDictionary[ModuleType, tuple[int, frozenset[str]]] = (
    weakref.WeakKeyDictionary()
)


def rebound_names(module: ModuleType) -> frozenset[str]:
    """The globals that the functions of a module bind or delete."""
    size = len(vars(module))
    known = _rebound.get(module)
    if known is None or known[0] != size:
        names = frozenset().union(*map(rebound_globals, codes_of(module)))
        known = _rebound[module] = (size, names)
    return known[1]


_BINDS_GLOBAL = {"STORE_GLOBAL", "DELETE_GLOBAL"}


@functools.lru_cache(maxsize=20_000)
def rebound_globals(code: CodeType) -> frozenset[str]:
    """The globals that `code` binds or deletes, as after a ``global`` statement.

    Code objects that are equal bind the same names.
    """
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in _BINDS_GLOBAL)


def is_running(module: ModuleType) -> bool:
    """Whether the body of a module may be running: all but what the import system has finished with."""
    spec = getattr(module, "__spec__", None)
    return spec is None or bool(getattr(spec, "_initializing", False))


def is_interactive(module: ModuleType) -> bool:
    """Whether a user goes on typing the code of a module, which may bind any name anew."""
    if module.__name__ != "__main__":
        return False
    return bool(sys.flags.interactive) or not hasattr(module, "__file__")


def running_code_binds(namespace: dict[str, Any], name: str) -> bool:
    """Whether the body of a module, which is running now, still has to bind a name.

    A module that specialises its own functions while it is imported may define what they use again.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is namespace and frame.f_code.co_name == "<module>":
            return binds_after(frame.f_code, name, frame.f_lasti)
        frame = frame.f_back
    return False


def binds_after(code: CodeType, name: str, offset: int) -> bool:
    """Whether code of a module may bind `name` once it has come to an offset."""
    instructions = list(dis.get_instructions(code))
    binding = [
        i.offset
        for i in instructions
        if (i.opname in ("STORE_NAME", "DELETE_NAME", *_BINDS_GLOBAL) and i.argval == name)
        or "IMPORT_STAR" in i.opname + i.argrepr
    ]
    loops = [
        (i.argval, i.offset)
        for i in instructions
        if "JUMP" in i.opname and isinstance(i.argval, int) and i.argval <= i.offset
    ]
    return any(
        bound > offset or any(start <= bound and offset <= end for start, end in loops)
        for bound in binding
    )
