"""Predicates that decide their usual case without a Python frame.

A guard written in Python costs a frame at each call, even one that only asks a C function and is done.
Such a predicate becomes a pipeline of iterators that live in C: `next` on it asks the function, tests
the answer and looks the outcome up in a table; what is not in the table runs the predicate.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from itertools import repeat
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..install import cell_content
from ..ir import Block, Op, Value
from ..lift import lift

#: The test of each kind of branch, given the answers.
_TESTS: dict[str, Callable[[Any], Any]] = {
    "true": lambda answers: map(operator.truth, answers),
    "false": lambda answers: map(operator.not_, answers),
    "none": lambda answers: map(operator.is_, answers, repeat(None)),
    "not_none": lambda answers: map(operator.is_not, answers, repeat(None)),
}

#: Operations that do nothing to what is known.
_IGNORED = frozenset("nop drop delete delete_check".split())


class Outcomes(dict[bool, Any]):
    """What a predicate returns, by the outcome of its first test; the rest is computed."""

    def __init__(self, predicate: Callable[[Any], Any], known: dict[bool, Any]) -> None:
        super().__init__(known)
        self.predicate = predicate

    def __missing__(self, outcome: bool) -> Any:
        return self.predicate(None)


def without_frame(predicate: FunctionType, lookers: frozenset[Any]) -> Callable[[Any], Any]:
    """The same predicate, its usual case without a frame of its own.

    Args:
        predicate: a function of one argument.
        lookers: C functions that may be asked twice, since they only look at a state.

    Returns:
        A callable in C; `predicate` itself if it looks at its argument, does not begin by asking one of
        `lookers`, or has no outcome that follows from the answer.
    """
    fn = lift(predicate.__code__)
    ops = [op for block in fn.blocks for op in block.ops]
    if any(op.arg == fn.varnames[0] and op.name.startswith("load") for op in ops):
        return predicate
    walk = _Walk(predicate)
    branch, asked = walk.follow(fn.blocks[0])
    if branch is None or branch.name != "branch" or not asked or asked is not walk.question:
        return predicate
    function, *arguments = walk.question
    known: dict[bool, Any] = {}
    for taken, edge in zip((True, False), walk.block.edges, strict=True):
        end, result = _Walk(predicate, walk.slots).follow(edge.target)
        if end is not None and end.name == "return_value" and len(result) == 1:
            known[taken] = result[0]
    if function not in lookers or not arguments or not known:
        return predicate
    answers = map(function, *map(repeat, arguments))
    outcomes = Outcomes(predicate, known)
    return functools.partial(next, map(outcomes.__getitem__, _TESTS[branch.arg](answers)))


class _Walk:
    """Follows a function up to where control depends on something.

    What is known of a value is a tuple: of the object, or of a C function and its arguments.
    """

    def __init__(self, predicate: FunctionType, slots: dict[str, tuple[Any, ...]] | None = None):
        self.predicate = predicate
        self.slots = dict(slots or {})
        self.question: tuple[Any, ...] = ()
        self.values: dict[Value, tuple[Any, ...]] = {}

    def follow(self, block: Block) -> tuple[Op | None, tuple[Any, ...]]:
        """The terminator at the end, and what is known of its operand; None if more happens before."""
        self.block = block
        if not all(map(self.understand, block.ops)):
            return None, ()
        term = block.term
        assert term is not None
        if term.name == "jump" and not block.edges[0].args:
            return self.follow(block.edges[0].target)
        return term, self.values.get(term.operands[0], ()) if term.operands else ()

    def understand(self, op: Op) -> bool:
        """Take in one operation; False if it does what is not known."""
        found = [self.values.get(value, ()) for value in op.operands]
        if op.name in ("const", "load_deref", "null"):
            content = cell_content(self.predicate, op.arg) if op.name == "load_deref" else op.arg
            self.values[op.results[0]] = (content,)
        elif op.name == "store":
            self.slots[op.arg] = found[0]
        elif op.name in ("load", "load_check") and op.arg in self.slots:
            self.values[op.results[0]] = self.slots[op.arg]
        elif op.name in ("copy", "to_bool"):
            self.values[op.results[0]] = found[0]
        elif op.name == "call" and not op.arg and not self.question and all(map(len, found)):
            # One of the first two is `null`.
            self.question = tuple(obj for (obj,) in found[:2] if obj is not None)
            asks = len(self.question) == 1 and isinstance(self.question[0], BuiltinFunctionType)
            self.question += tuple(obj for (obj,) in found[2:])
            self.values[op.results[0]] = self.question
            return asks
        else:
            return op.name in _IGNORED
        return True
