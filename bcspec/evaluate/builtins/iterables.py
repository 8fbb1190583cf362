"""Builtins over known iterables: containers made of them, and iterators, which stay virtual."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir import Op
from .. import models
from ..collections import dict_object, dict_pairs, iteration_source
from ..domain import AVal, Const, Entry, Ref, Tmp, VObj
from ..unfold import callee_of, can_unfold, sequence_items, unfold
from .registry import BUILTINS, Rule, called, give, on

if TYPE_CHECKING:
    from ..evaluator import Evaluator


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
