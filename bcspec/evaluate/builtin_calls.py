"""Builtin functions and methods: which calls are folded, and how.

A rule is called as ``rule(evaluator, op, args, keywords)`` with the operands in the hand.  It either
folds the call and returns True, or changes nothing and returns False.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir import Op
from . import models
from .collections import (
    dict_object,
    dict_pairs,
    holds,
    is_key,
    iterable_items,
    iteration_source,
    known_length,
    subscript,
)
from .domain import (
    NULL,
    UNBOUND,
    AVal,
    Const,
    Dyn,
    Entry,
    Ref,
    Tmp,
    TypeFact,
    VObj,
    is_atomic,
)
from .instances import blank_instance, is_plain
from .machine import known_type
from .rules.registry import residual_hand
from .truth import truth_of
from .unfold import callee_of, can_unfold, sequence_items, unfold

if TYPE_CHECKING:
    from .evaluator import Evaluator

Rule = Callable[["Evaluator", Op, list[Entry], dict[str, Entry]], bool]

BUILTINS: dict[Any, Rule] = {}
METHODS: dict[Any, Rule] = {}


def on(*functions: Any, table: dict[Any, Rule] = BUILTINS) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for function in functions:
            table[function] = rule
        return rule

    return register


def give(ev: Evaluator, op: Op, value: AVal) -> bool:
    """Replace the call by a value."""
    ev.discard_hand_keeping(value)
    if isinstance(value, Const) and not value.deep:
        ev.give(op, ev.const_entry(value.obj))
    else:
        ev.give(op, Entry(value))
    ev.collect()
    return True


def virtual_class(ev: Evaluator, aval: AVal) -> type | None:
    """The exact class of a value, virtual objects included."""
    if isinstance(aval, Ref):
        obj = ev.state.heap[aval.id]
        if obj.kind == "instance":
            return obj.tag[0].obj  # type: ignore[no-any-return]
        if obj.kind == "gencall":
            function = obj.kids[0]
            if isinstance(function, Const) and isinstance(function.obj, type):
                return function.obj
            return types.GeneratorType
        return VIRTUAL_CLASSES.get(obj.kind)
    return known_type(aval)


VIRTUAL_CLASSES: dict[str, type] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "slice": slice,
    "function": types.FunctionType,
    "method": types.MethodType,
    "cell": types.CellType,
    "generator": types.GeneratorType,
    "running": types.GeneratorType,
    "finished": types.GeneratorType,
}


# -- types and attributes ----------------------------------------------------------------


@on(isinstance)
def isinstance_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 2 or keywords:
        return False
    cls = virtual_class(ev, args[0].aval)
    targets = classes_in(ev, args[1].aval)
    if cls is None or targets is None:
        return False
    if isinstance(args[0].aval, Const) and args[0].aval.obj.__class__ is not cls:
        return False
    return give(ev, op, Const(any(target in cls.__mro__ for target in targets)))


def classes_in(ev: Evaluator, aval: AVal) -> list[type] | None:
    """The classes of an `isinstance` target, if none of them decides for itself."""
    if isinstance(aval, Const) and isinstance(aval.obj, type):
        decides = type(aval.obj).__instancecheck__ is not type.__instancecheck__
        return None if decides else [aval.obj]
    items = sequence_items(ev, aval)
    if items is None and isinstance(aval, Const) and isinstance(aval.obj, types.UnionType):
        items = [Const(arg) for arg in typing.get_args(aval.obj)]
    if items is None:
        return None
    found: list[type] = []
    for item in items:
        below = classes_in(ev, item)
        if below is None:
            return None
        found += below
    return found


@on(issubclass)
def issubclass_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 2 or keywords or not isinstance(args[0].aval, Const):
        return False
    targets = classes_in(ev, args[1].aval)
    cls = args[0].aval.obj
    if targets is None or not isinstance(cls, type):
        return False
    if any(type(target).__subclasscheck__ is not type.__subclasscheck__ for target in targets):
        return False
    return give(ev, op, Const(any(target in cls.__mro__ for target in targets)))


@on(type)
def type_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    aval = args[0].aval
    cls = virtual_class(ev, aval)
    if cls is not None:
        return give(ev, op, Const(cls))
    if op.name != "call" or not isinstance(aval, Dyn) or aval.maybe:
        return False
    residual_hand(ev, op)
    ev.type_facts[ev.value_of(ev.state.top.env[op.results[0]])] = TypeFact(aval.slot)
    return True


@on(callable)
def callable_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    cls = virtual_class(ev, args[0].aval)
    return cls is not None and give(ev, op, Const(any("__call__" in vars(b) for b in cls.__mro__)))


@on(bool)
def bool_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    truth = truth_of(ev, args[0].aval)
    return truth is not None and give(ev, op, Const(truth))


@on(id, hash)
def never(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return False


@on(getattr, hasattr)
def getattr_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    from .attributes import Bound, Getter
    from .rules.functions import find_attribute

    if len(args) not in (2, 3) or keywords or not isinstance(args[1].aval, Const):
        return False
    name = args[1].aval.obj
    if type(name) is not str:
        return False
    function = called(ev)
    found = find_attribute(ev, args[0].aval, name)
    if function is hasattr:
        if found is not None and not isinstance(found, Getter):
            return give(ev, op, Const(True))
        return surely_lacks(ev, args[0].aval, name) and give(ev, op, Const(False))
    if found is None or isinstance(found, Getter):
        if len(args) == 3 and surely_lacks(ev, args[0].aval, name):
            return give_entry(ev, op, args[2])
        return False
    if isinstance(found, Bound):
        self_ = args[0]
        if isinstance(self_.aval, Tmp):
            return False
        found = ev.new_ref(VObj("method", None, (Const(found.function), self_.aval)))
    return give(ev, op, found)


def called(ev: Evaluator) -> Any:
    """The builtin that the hand calls, perhaps through a `functools.partial`."""
    for entry in ev.state.hand[:2]:
        if isinstance(entry.aval, Const) and callable(entry.aval.obj):
            found = entry.aval.obj
            return found.func if type(found) is functools.partial else found
    return None


def give_entry(ev: Evaluator, op: Op, entry: Entry) -> bool:
    """Replace the call by one of its arguments."""
    for other in reversed(ev.grab()):
        if other is not entry:
            ev.discard(other)
    ev.give(op, entry)
    ev.collect()
    return True


def surely_lacks(ev: Evaluator, aval: AVal, name: str) -> bool:
    """Whether a frozen object has no such attribute."""
    from .attributes import frozen_reason, plain_lookup

    if (
        not isinstance(aval, Const)
        or not plain_lookup(type(aval.obj))
        or isinstance(aval.obj, type)
    ):
        return False
    if any("__getattr__" in vars(base) for base in type(aval.obj).__mro__):
        return False
    frozen = is_atomic(aval.obj) or frozen_reason(ev, aval, name) is not None
    return frozen and not hasattr(aval.obj, name)


# -- sizes and sequences -----------------------------------------------------------------


@on(len)
def len_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    size = known_length(ev, args[0].aval)
    return size is not None and give(ev, op, Const(size))


@on(range)
def range_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    values = [
        e.aval.obj for e in args if isinstance(e.aval, Const) and type(e.aval.obj) in (int, bool)
    ]
    if keywords or len(values) != len(args) or not 1 <= len(args) <= 3 or values[2:] == [0]:
        return False
    return give(ev, op, Const(range(*values)))


@on(slice)
def slice_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    values = [e.aval.obj for e in args if isinstance(e.aval, Const)]
    if keywords or len(values) != len(args) or not 1 <= len(args) <= 3:
        return False
    return give(ev, op, Const(slice(*values)))


@on(min, max, abs, int, float, str, ord, chr, round, divmod, repr)
def atomic(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """Pure functions of atomic constants."""
    values = [e.aval.obj for e in args if isinstance(e.aval, Const) and is_atomic(e.aval.obj)]
    if keywords or len(values) != len(args):
        return False
    try:
        result = called(ev)(*values)
    except Exception:  # it fails at run time, too: the call stays in its place
        return False
    return is_atomic(result) and give(ev, op, Const(result))


def model(function: Any, *, empty: Callable[[], VObj] | None = None) -> Rule:
    """Evaluate a builtin over a known iterable by unfolding its model in Python."""

    def rule(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
        if not args and not keywords and empty is not None:
            return give(ev, op, ev.new_ref(empty()))
        if keywords or not args or not iterable_known(ev, args[0].aval):
            return False
        return open_model(ev, op, function, args)

    return rule


def open_model(ev: Evaluator, op: Op, function: Any, args: list[Entry]) -> bool:
    callee = callee_of(ev, Const(function))
    assert callee is not None
    binding = can_unfold(ev, callee, args, {})
    if binding is None:
        return False
    kept = {id(entry) for entry in args}
    for entry in reversed(ev.grab()):
        if id(entry) not in kept:
            ev.discard(entry)
    unfold(ev, callee, binding)
    return True


def iterable_known(ev: Evaluator, aval: AVal) -> bool:
    if isinstance(aval, Const):
        kind = type(aval.obj)
        return kind in (tuple, range) or (kind in (list, dict) and aval.deep)
    return isinstance(aval, Ref) and ev.state.heap[aval.id].kind in (
        "tuple", "list", "iterator", "gencall", "generator",
    )  # fmt: skip


BUILTINS[all] = model(models.all_)
BUILTINS[any] = model(models.any_)
BUILTINS[list] = model(models.list_, empty=lambda: VObj("list"))
BUILTINS[tuple] = model(models.tuple_, empty=lambda: VObj("tuple"))


@on(dict)
def dict_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if args and (len(args) > 1 or keywords):
        return False
    if args:
        pairs = dict_pairs(ev, args[0].aval)
        if pairs is None:
            return makes_pairs(ev, args[0].aval) and open_model(ev, op, models.dict_, args)
        return give(ev, op, ev.new_ref(dict_object([k for k, _ in pairs], [v for _, v in pairs])))
    if any(isinstance(entry.aval, Tmp) for entry in keywords.values()):
        return False
    values = [entry.aval for entry in keywords.values()]
    return give(ev, op, ev.new_ref(dict_object(list(keywords), values)))


def makes_pairs(ev: Evaluator, aval: AVal) -> bool:
    """Whether an iterable gives tuples of two: `dict` has an error of its own for anything else."""
    if not isinstance(aval, Ref) or ev.state.heap[aval.id].kind != "gencall":
        return False
    function, *args = ev.state.heap[aval.id].kids
    assert isinstance(function, Const)
    return function.obj is enumerate or (function.obj is zip and len(args) == 2)


def lazily(known: Callable[[Evaluator, list[Entry]], bool]) -> Rule:
    """A builtin that makes an iterator: a virtual call, looked into only when it is iterated."""

    def rule(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
        function = called(ev)
        model = ITERATION_MODELS.get(function)
        if model is not None and model.__code__ in ev.request.demands.no_unfold:
            return False
        if keywords or not args or not known(ev, args):
            return False
        kept = {id(entry) for entry in args}
        placed: dict[int, AVal] = {}
        for entry in reversed(ev.grab()):
            if id(entry) in kept:
                placed[id(entry)] = ev.to_slot(entry, "item")
            else:
                ev.discard(entry)
        kids = (Const(function), *(placed[id(entry)] for entry in args))
        ev.give(op, Entry(ev.new_ref(VObj("gencall", (), kids))))
        return True

    return rule


def first_known(ev: Evaluator, args: list[Entry]) -> bool:
    return len(args) == 1 and iterable_known(ev, args[0].aval)


def reversible(ev: Evaluator, args: list[Entry]) -> bool:
    """A list that may change before the loop begins is not looked at lazily."""
    aval = args[0].aval
    fixed = isinstance(aval, Const) or ev.object(aval, "tuple") is not None
    return len(args) == 1 and fixed and sequence_or_range(ev, aval) is not None


def all_known(ev: Evaluator, args: list[Entry]) -> bool:
    return all(sequence_or_range(ev, entry.aval) is not None for entry in args)


BUILTINS[reversed] = lazily(reversible)
zip_known = lazily(all_known)


@on(zip)
def zip_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """`zip`; with ``strict`` only where it has nothing to say, since all lengths are the same."""
    if keywords.keys() - {"strict"} or not all_known(ev, args):
        return False
    if "strict" in keywords:
        strict = keywords["strict"].aval
        lengths = {len(sequence_or_range(ev, entry.aval) or ()) for entry in args}
        if not isinstance(strict, Const) or (strict.obj is not False and len(lengths) > 1):
            return False
    return zip_known(ev, op, args, {})


BUILTINS[enumerate] = lazily(lambda ev, args: len(args) <= 2 and iterable_known(ev, args[0].aval))
BUILTINS[map] = lazily(lambda ev, args: len(args) == 2 and iterable_known(ev, args[1].aval))
BUILTINS[dict.items] = BUILTINS[dict.keys] = BUILTINS[dict.values] = lazily(
    lambda ev, args: len(args) == 1 and dict_pairs(ev, args[0].aval) is not None
)


def start_iteration(ev: Evaluator, kids: tuple[AVal, ...]) -> VObj | None:
    """The iterator that a virtual call of a builtin gives, or None for models in Python."""
    function, *args = kids
    assert isinstance(function, Const)
    if function.obj is zip:
        return VObj("zipped", 0, tuple(args))
    if function.obj is reversed:
        items = sequence_or_range(ev, args[0])
        assert items is not None
        return VObj("iterator", 0, (ev.new_ref(VObj("tuple", None, tuple(reversed(items)))),))
    parts = {dict.items: "items", dict.keys: "keys", dict.values: "values"}
    if isinstance(function.obj, types.MethodDescriptorType):
        return VObj("iterator", 0, (dict_rows(ev, args[0], parts[function.obj]),))
    return None


def dict_rows(ev: Evaluator, aval: AVal, part: str) -> Ref:
    rows: list[AVal] = []
    for key, value in dict_pairs(ev, aval) or ():
        if part == "items":
            rows.append(ev.new_ref(VObj("tuple", None, (Const(key), value))))
        else:
            rows.append(Const(key) if part == "keys" else value)
    return ev.new_ref(VObj("tuple", None, tuple(rows)))


#: Python models of builtins whose iteration runs code.
ITERATION_MODELS: dict[Any, Any] = {enumerate: models.enumerate_, map: models.map_}


def sequence_or_range(ev: Evaluator, aval: AVal) -> list[AVal] | None:
    if isinstance(aval, Const) and isinstance(aval.obj, range):
        return [Const(number) for number in aval.obj]
    return sequence_items(ev, aval)


@on(iter)
def iter_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) != 1 or keywords:
        return False
    source = iteration_source(ev, args[0].aval)
    return source is not None and give(ev, op, ev.new_ref(VObj("iterator", 0, (source,))))


@on(typing.cast)
def cast(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return len(args) == 2 and not keywords and give_entry(ev, op, args[1])


@on(super)
def super_(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """`super()` in a method whose class is known, and `super(cls, obj)`."""
    if keywords or len(args) not in (0, 2):
        return False
    start, instance = (args[0].aval, args[1].aval) if args else super_arguments(ev)
    proxy = super_object(ev, start, instance)
    if proxy is not None:
        return give(ev, op, proxy)
    if args:
        return False
    # Without arguments `super` looks at the frame, which has to be that of the source.
    ev.discard_hand_keeping(instance)
    ev.state.hand += [Entry(NULL), Entry(Const(super)), Entry(start), Entry(instance)]
    ev.realise_hand()
    (value,) = ev.emit_raising("call", (), [], 1)
    ev.give(op, Entry(Tmp(value), value))
    ev.collect()
    return True


def super_arguments(ev: Evaluator) -> tuple[AVal, AVal]:
    """What `super` without arguments takes from the frame."""
    frame = ev.state.top
    cell = frame.cells.get("__class__")
    name = (*frame.source.fn.arg_names, "")[0]
    instance = frame.locals.get(name, UNBOUND)
    own = ev.object(frame.cells[name], "cell") if name in frame.cells else None
    if own is not None:
        (instance,) = own.kids
    unknown = instance is UNBOUND or (isinstance(instance, Dyn) and instance.maybe)
    if unknown or not isinstance(cell, Const):
        raise ev.generic_from_here("it calls `super` without arguments that are known")
    return Const(cell.obj.cell_contents), instance


def super_object(ev: Evaluator, start: AVal, instance: AVal) -> Ref | None:
    """The virtual ``super(start, instance)``, where its class is known."""
    if not isinstance(start, Const) or isinstance(instance, Tmp):
        return None
    cls = virtual_class(ev, instance)
    if isinstance(instance, Const) and isinstance(instance.obj, type):
        cls = instance.obj
    if cls is None or start.obj not in cls.__mro__:
        return None
    return ev.new_ref(VObj("super", None, (start, instance)))


@on(object.__new__)
def object_new(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    """The last step of a `__new__` written in Python."""
    cls = args[0].aval.obj if len(args) == 1 and isinstance(args[0].aval, Const) else None
    if keywords or not isinstance(cls, type) or not is_plain(cls):
        return False
    return give(ev, op, blank_instance(ev, cls))


@on(object.__init__)
def object_init(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    return len(args) == 1 and not keywords and give(ev, op, Const(None))


# -- methods of virtual containers ---------------------------------------------------------


def list_target(ev: Evaluator, args: list[Entry]) -> tuple[Ref, VObj] | None:
    obj = ev.object(args[0].aval, "list") if args else None
    return (args[0].aval, obj) if obj is not None else None  # type: ignore[return-value]


@on(list.append, table=METHODS)
def append(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 2 or keywords or holds(ev, args[1].aval, target[0]):
        return False
    ref, _ = target
    for entry in reversed(ev.grab()):
        if entry is args[1]:
            value = ev.to_slot(entry, "item")
        else:
            ev.discard(entry)
    obj = ev.state.heap[ref.id]
    ev.state.heap[ref.id] = obj.with_kids((*obj.kids, value))
    ev.give(op, ev.const_entry(None))
    return True


@on(list.extend, table=METHODS)
def extend(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    items = iterable_items(ev, args[1].aval) if len(args) == 2 else None
    if target is None or items is None or keywords:
        return False
    ref, obj = target
    ev.state.heap[ref.id] = obj.with_kids((*obj.kids, *items))
    return give(ev, op, Const(None))


@on(list.clear, table=METHODS)
def clear(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 1 or keywords:
        return False
    ref, obj = target
    ev.state.heap[ref.id] = obj.with_kids(())
    return give(ev, op, Const(None))


@on(list.pop, table=METHODS)
def pop(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    index: Any = args[1].aval.obj if len(args) == 2 and isinstance(args[1].aval, Const) else -1
    unknown = len(args) == 2 and not isinstance(args[1].aval, Const)
    if target is None or keywords or len(args) > 2 or unknown or type(index) is not int:
        return False
    ref, obj = target
    if not -len(obj.kids) <= index < len(obj.kids):
        return False
    kids = list(obj.kids)
    item = kids.pop(index)
    ev.state.heap[ref.id] = obj.with_kids(tuple(kids))
    return give(ev, op, item)


@on(list.copy, table=METHODS)
def copy(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    target = list_target(ev, args)
    if target is None or len(args) != 1 or keywords:
        return False
    return give(ev, op, ev.new_ref(VObj("list", None, target[1].kids)))


@on(dict.get, table=METHODS)
def get(ev: Evaluator, op: Op, args: list[Entry], keywords: dict[str, Entry]) -> bool:
    if len(args) not in (2, 3) or keywords or not is_key(args[1].aval):
        return False
    if dict_pairs(ev, args[0].aval) is None:
        return False
    found = subscript(ev, args[0].aval, args[1].aval)
    if found is not None:
        return give(ev, op, found)
    return give_entry(ev, op, args[2]) if len(args) == 3 else give(ev, op, Const(None))
