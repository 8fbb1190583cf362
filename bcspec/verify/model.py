"""The shape of a version table: what each opcode does to the operand stack and to control flow.

`bcspec/verify/py3xx.py` fills these in; nothing else in the verifier depends on the version.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .decode import Wordcode
    from .interp import Machine


class Flow(enum.Enum):
    """Where control goes after an instruction."""

    NEXT = "next"
    STOP = "stop"  # returns or raises
    JUMP = "jump"
    BRANCH = "branch"  # next, or the target
    SPLIT = "split"  # like BRANCH, where the action itself goes to the target


class Operand(enum.Enum):
    """What an instruction's argument counts or indexes."""

    FREE = "free"  # any value
    RANGE = "range"  # `Spec.lowest` <= value < `Spec.limit`
    COUNT = "number of stack slots"
    TWO_COUNTS = "pair of numbers of stack slots"
    CONST = "co_consts index"
    NAME = "co_names index"
    NAME_SHIFTED = "co_names index above a flag bit"
    NAME_SHIFTED_TWICE = "co_names index above two flag bits"
    PLAIN = "plain local"
    CELL = "cell variable"
    SAVED = "local or cell variable"
    SLOT = "slot of the frame"
    DEREF = "cell or free variable"


@dataclass(frozen=True, slots=True)
class Effect:
    """The stack effect of one instruction with its argument.

    Attributes:
        reads: accepted tags of the topmost slots, bottom first; None when `pops` plain objects
            are all that is looked at.
        pops: how many slots go, when it succeeds or when it raises.
        pushes: kinds pushed, bottom first.
        taken_pops: like `pops`, when the jump is taken.
        taken_pushes: like `pushes`, when the jump is taken.
    """

    reads: tuple[int, ...] | None
    pops: int
    pushes: tuple[int, ...] = ()
    taken_pops: int = 0
    taken_pushes: tuple[int, ...] = ()


#: Does the stack work of an instruction whose effect depends on the kinds it meets.
Action = Callable[["Machine", list[int], int, int], None]
#: Looks at an instruction and its neighbours once, before interpretation: (words, index).
StaticCheck = Callable[["Wordcode", int], None]


@dataclass(frozen=True, slots=True)
class Spec:
    """One opcode.

    Attributes:
        effect: its stack effect, or a function from its argument to it.
        operand: what the argument is.
        lowest, limit: bounds for `Operand.RANGE`.
        flow: where control goes.
        backward: the jump is backward.
        raises: it can raise, or run code that raises.
        action: replaces the pops and pushes of `effect` (its `reads` and `pops` still hold).
        check: a static check of the neighbourhood.
    """

    effect: Effect | Callable[[int], Effect]
    operand: Operand = Operand.FREE
    lowest: int = 0
    limit: int = 0
    flow: Flow = Flow.NEXT
    backward: bool = False
    raises: bool = True
    action: Action | None = None
    check: StaticCheck | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Everything that a CPython version decides.

    Attributes:
        version: major and minor.
        specs: by instruction name.
        prologue: what may come before the first RESUME.
        only_prologue: what may come nowhere else.
        unchecked: instructions that read a local without a check for NULL.
    """

    version: tuple[int, int]
    specs: Mapping[str, Spec]
    prologue: frozenset[str]
    only_prologue: frozenset[str]
    unchecked: frozenset[str] = frozenset()
