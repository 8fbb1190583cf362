"""Unfolding: which calls are opened, how arguments are bound, how frames are made.

Argument binding follows ``initialize_locals`` of CPython (``Python/ceval.c``): positional
parameters, ``*args``, keywords, ``**kwargs``, defaults, keyword-only defaults.  A call that would
raise TypeError is left in place.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.ops import FUNCTION_PARTS
from .attributes import static_lookup
from .domain import UNBOUND, AVal, Cells, Const, Dyn, Entry, Frame, Hold, Tmp, VObj
from .source import LOOKS_AT_FRAMES, Source, source_of

if TYPE_CHECKING:
    from .evaluator import Evaluator


@dataclass(slots=True)
class Callee:
    """A Python function about to be unfolded.

    `function` is the function object, or None for a virtual function; `lead` are arguments that
    the callable itself brings (an instance, the arguments of a `functools.partial`).
    """

    code: types.CodeType
    globals: dict[str, Any]
    defaults: tuple[AVal, ...]
    kwdefaults: dict[str, AVal]
    cells: tuple[AVal, ...]
    function: Any
    lead: list[AVal] = field(default_factory=list)
    lead_kw: dict[str, AVal] = field(default_factory=dict)


def callee_of(ev: Evaluator, aval: AVal) -> Callee | None:
    """The Python function that a call of `aval` runs, if it is known."""
    if isinstance(aval, Const):
        return const_callee(ev, aval.obj)
    obj = ev.object(aval, "function", "method")
    if obj is None:
        return None
    if obj.kind == "method":
        inner = callee_of(ev, obj.kids[0])
        if inner is not None:
            inner.lead.insert(0, obj.kids[1])
        return inner
    return virtual_callee(ev, obj)


def const_callee(ev: Evaluator, obj: Any) -> Callee | None:
    """Look through bound methods, partials and callable instances."""
    if isinstance(obj, types.FunctionType):
        equivalent = ev.request.knowledge.equivalents.get(obj)
        if equivalent is not None:
            ev.rely_on(equivalent.guards)
            return const_callee(ev, equivalent.function)
        return Callee(
            code=obj.__code__,
            globals=obj.__globals__,
            defaults=tuple(map(Const, obj.__defaults__ or ())),
            kwdefaults={k: Const(v) for k, v in (obj.__kwdefaults__ or {}).items()},
            cells=tuple(map(Const, obj.__closure__ or ())),
            function=obj,
        )
    if isinstance(obj, types.MethodType):
        return with_lead(const_callee(ev, obj.__func__), [Const(obj.__self__)], {})
    if type(obj) is functools.partial:
        keywords: dict[str, AVal] = {k: Const(v) for k, v in obj.keywords.items()}
        return with_lead(const_callee(ev, obj.func), list(map(Const, obj.args)), keywords)
    if isinstance(obj, type):
        return None
    method = static_lookup(type(obj), "__call__")
    if isinstance(method, types.FunctionType) and ev.request.assume:
        ev.assume("declared", type(obj), "__call__", method, "methods of classes are not replaced")
        return with_lead(const_callee(ev, method), [Const(obj)], {})
    return None


def with_lead(callee: Callee | None, lead: list[AVal], keywords: dict[str, AVal]) -> Callee | None:
    if callee is not None:
        callee.lead[:0] = lead
        callee.lead_kw = {**callee.lead_kw, **keywords}
    return callee


def virtual_callee(ev: Evaluator, obj: VObj) -> Callee | None:
    """A closure made on this path."""
    defaults, kwdefaults = obj.kids[:2]
    cells = obj.kids[len(FUNCTION_PARTS) :]
    positional: tuple[AVal, ...] = ()
    if defaults is not UNBOUND:
        found = sequence_items(ev, defaults)
        if found is None:
            return None
        positional = tuple(found)
    named: dict[str, AVal] = {}
    if kwdefaults is not UNBOUND:
        table = ev.object(kwdefaults, "dict")
        if table is None:
            return None
        named = {key.obj: kid for key, kid in zip(table.tag, table.kids, strict=True)}
    return Callee(obj.tag.code.obj, obj.tag.globals.obj, positional, named, tuple(cells), None)


def sequence_items(ev: Evaluator, aval: AVal) -> list[AVal] | None:
    """The items of a known tuple or list."""
    if isinstance(aval, Const):
        if type(aval.obj) is tuple or (type(aval.obj) is list and aval.deep):
            return [Const(item, aval.deep) for item in aval.obj]
        return None
    obj = ev.object(aval, "tuple", "list")
    return list(obj.kids) if obj is not None else None


#: What these do takes long, happens seldom, and depends on who calls.
OUTLINED_MODULES = frozenset({"logging", "traceback", "warnings", "inspect", "linecache"})


def refusal(ev: Evaluator, callee: Callee) -> str | None:
    """Why a known function must stay a call, or None."""
    request = ev.request
    if callee.code in request.demands.no_unfold:
        return request.demands.no_unfold[callee.code]
    declared = request.knowledge.no_unfold
    if callee.function is not None and callee.function in declared:
        return declared[callee.function]
    module = callee.globals.get("__name__")
    if module in OUTLINED_MODULES:
        return f"{module} is for unusual paths"
    name = f"{module}.{callee.code.co_qualname}"
    if name in request.knowledge.outlined:
        return request.knowledge.outlined[name]
    if getattr(callee.function, "__bcspec_no_unfold__", False):
        return "it is marked no_unfold"
    source = source_of(callee.code)
    if not request.assume:
        return "nothing is assumed"
    return static_refusal(source) or budget_refusal(ev, callee.code, source)


def static_refusal(source: Source) -> str | None:
    if source.observes_at_once:
        return LOOKS_AT_FRAMES
    if source.uses_names:
        return "it is a class body or a module"
    if source.fn.flags & (0x80 | 0x200):
        return "it is a coroutine or an asynchronous generator"
    return None


def budget_refusal(ev: Evaluator, code: types.CodeType, source: Source) -> str | None:
    limits = ev.request.limits
    if source.size > limits.unfold_size:
        return f"it has {source.size} operations (limit {limits.unfold_size})"
    frames = ev.state.frames
    if len(frames) >= limits.depth:
        return f"{limits.depth} calls are unfolded into each other"
    if sum(frame.source.code is code for frame in frames) >= limits.recursion:
        return f"it recurses more than {limits.recursion} times"
    return None


@dataclass(slots=True)
class Binding:
    """Which argument goes to which parameter; `star` and `double_star` collect the rest."""

    values: dict[str, Entry] = field(default_factory=dict)
    star: list[Entry] = field(default_factory=list)
    double_star: dict[str, Entry] = field(default_factory=dict)


def bind(
    source: Source, callee: Callee, args: list[Entry], kwargs: dict[str, Entry]
) -> Binding | None:
    """Match arguments and parameters, or None when the call would raise TypeError."""
    fn = source.fn
    names = fn.varnames[: fn.argcount]
    kwonly = fn.varnames[fn.argcount : fn.argcount + fn.kwonlyargcount]
    binding = Binding(dict(zip(names, args, strict=False)))
    binding.star = args[len(names) :]
    if binding.star and not fn.flags & 0x04:
        return None
    by_keyword = {*names[fn.posonlyargcount :], *kwonly}
    for name, entry in kwargs.items():
        if name in by_keyword:
            if name in binding.values:
                return None
            binding.values[name] = entry
        elif fn.flags & 0x08:
            binding.double_star[name] = entry
        else:
            return None
    offset = len(names) - len(callee.defaults)
    for position, name in enumerate(names):
        if name not in binding.values:
            if position < offset:
                return None
            binding.values[name] = Entry(callee.defaults[position - offset])
    for name in kwonly:
        if name not in binding.values:
            if name not in callee.kwdefaults:
                return None
            binding.values[name] = Entry(callee.kwdefaults[name])
    return binding


def can_unfold(
    ev: Evaluator, callee: Callee, args: list[Entry], kwargs: dict[str, Entry]
) -> Binding | None:
    """The binding if the call may be unfolded; otherwise the reason is noted."""
    why = refusal(ev, callee)
    if why is None:
        every = [Entry(a) for a in callee.lead] + args
        binding = bind(
            source_of(callee.code), callee, every, {**lead_keywords(callee, kwargs), **kwargs}
        )
        if binding is not None:
            return binding
        why = "the arguments do not fit its parameters"
    ev.note("declined", f"{callee.code.co_qualname}: {why}")
    return None


def lead_keywords(callee: Callee, kwargs: dict[str, Entry]) -> dict[str, Entry]:
    return {name: Entry(aval) for name, aval in callee.lead_kw.items() if name not in kwargs}


def unfold(
    ev: Evaluator,
    callee: Callee,
    binding: Binding,
    cont: str = "value",
    held: tuple[AVal, ...] = (),
) -> None:
    """Open a frame for a call whose arguments have left the hand, and go on inside it."""
    source = source_of(callee.code)
    ev.note("unfolded", callee.code.co_qualname)
    depth = len(ev.state.frames)
    locals_ = place_arguments(ev, source, binding, depth)
    frame = Frame(
        source=source,
        block=source.fn.blocks[0],
        index=0,
        locals=locals_,
        env={},
        cells=Cells(make_cells(ev, source, locals_, callee.cells, depth)),
        globals=callee.globals,
        cont=cont,
        held=held,
        function=callee.function,
    )
    ev.push_frame(frame)


def place_arguments(ev: Evaluator, source: Source, binding: Binding, depth: int) -> dict[str, AVal]:
    """Bind parameters; temporaries are stored, the top of the stack first."""
    fn = source.fn
    targets: list[tuple[Entry, str]] = [(e, f"{n}@{depth}") for n, e in binding.values.items()]
    targets += [(e, f"star{i}@{depth}") for i, e in enumerate(binding.star)]
    targets += [(e, f"{n}@{depth}") for n, e in binding.double_star.items()]
    placed: dict[int, AVal] = {}
    for entry, slot in sorted(targets, key=lambda t: -stack_position(ev, t[0])):
        placed[id(entry)] = place(ev, entry, slot)
    locals_ = {name: placed[id(entry)] for name, entry in binding.values.items()}
    rest = fn.varnames[fn.argcount + fn.kwonlyargcount :]
    if fn.flags & 0x04:
        locals_[rest[0]] = ev.new_ref(
            VObj("tuple", None, tuple(placed[id(e)] for e in binding.star))
        )
        rest = rest[1:]
    if fn.flags & 0x08:
        keys = tuple(map(Hold, binding.double_star))
        kids = tuple(placed[id(e)] for e in binding.double_star.values())
        locals_[rest[0]] = ev.new_ref(VObj("dict", keys, kids))
    return locals_


def stack_position(ev: Evaluator, entry: Entry) -> int:
    """Order in which temporaries were pushed (others do not matter)."""
    if entry.temp is None:
        return -1
    for position, op in enumerate(reversed(ev.cur.ops)):
        if entry.temp in op.results:
            return len(ev.cur.ops) - position
    return -1


def place(ev: Evaluator, entry: Entry, slot: str) -> AVal:
    if isinstance(entry.aval, Tmp):
        if slot in ev.state.bound:
            slot = ev.fresh_slot(slot.split("@")[0])
        ev.store(slot, entry.aval.value)
        return Dyn(slot, entry.aval.type)
    return ev.to_slot(entry, slot)


def make_cells(
    ev: Evaluator, source: Source, locals_: dict[str, AVal], closure: tuple[AVal, ...], depth: int
) -> dict[str, AVal]:
    """Cells of a new frame: those of the closure, and virtual ones for its own variables."""
    cells: dict[str, AVal] = dict(zip(source.fn.freevars, closure, strict=True))
    for name in source.fn.cellvars:
        content = locals_.pop(name, UNBOUND)
        cells[name] = ev.new_ref(VObj("cell", (name, depth), (content,)))
    return cells
