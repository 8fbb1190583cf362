"""Starting to iterate over what a call would have made."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from .builtins.iterables import ITERATION_MODELS, start_iteration
from .domain import Const, Entry, Ref
from .generators import start_generator
from .unfold import callee_of, can_unfold

if TYPE_CHECKING:
    from .evaluator import Evaluator


def begin_iteration(ev: Evaluator, ref: Ref) -> None:
    """Turn a virtual call that makes an iterator into that iterator or a suspended frame."""
    obj = ev.state.heap[ref.id]
    function, *rest = obj.kids
    if isinstance(function, Const) and not isinstance(function.obj, FunctionType):
        started = start_iteration(ev, obj.kids)
        if started is not None:
            ev.state.heap[ref.id] = started
            return
        function = Const(ITERATION_MODELS[function.obj])
    callee = callee_of(ev, function)
    assert callee is not None
    count = len(obj.tag)
    args = [Entry(aval) for aval in rest[: len(rest) - count]]
    keywords = {n: Entry(a) for n, a in zip(obj.tag, rest[len(rest) - count :], strict=True)}
    binding = can_unfold(ev, callee, args, keywords)
    assert binding is not None
    generator = start_generator(ev, callee, binding)
    ev.state.heap[ref.id] = ev.state.heap.pop(generator.id)
    ev.collect()
