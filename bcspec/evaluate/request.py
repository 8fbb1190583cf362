"""What is asked of the evaluator, and what it may assume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..knowledge import Knowledge, Refinement


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that make every evaluation end.

    Attributes:
        variants: versions of one point that differ by more than the position in a static loop.
        handler_variants: versions of the start of an exception handler.
        unrolled: versions of one point in all.
        depth: unfolded activations at one time; `recursion` of them of the same code.
        unfold_size: operations of a function that is unfolded.
        residual: operations of the residual function.
        restarts: evaluations of one function.
    """

    variants: int = 8
    handler_variants: int = 3
    unrolled: int = 500
    depth: int = 40
    recursion: int = 6
    unfold_size: int = 1500
    residual: int = 20000
    restarts: int = 60


@dataclass(slots=True)
class Demands:
    """What earlier evaluations of the same request found out the hard way."""

    real_cells: set[str] = field(default_factory=set)
    real_raises: set[Any] = field(default_factory=set)
    no_unfold: dict[CodeType, str] = field(default_factory=dict)
    widened: dict[Any, dict[Any, bool]] = field(default_factory=dict)
    rounds: int = 0
    unroll: bool = True


@dataclass(slots=True)
class Request:
    """One specialisation.

    Attributes:
        function: the generic function.
        constants: parameters with a fixed value; the residual function lacks them.
        types: exact types declared for parameters, or what else is known of them; ``name.0`` is the
            first item of ``*name`` of a declared length.
        lengths: number of items declared for a ``*args`` parameter (checked at each call).
        identical: parameters that are always one object (checked at each call).
        knowledge: what is declared.
        check: once this has said yes, what is known of attributes and items holds (see `Refinement`).
        assume: whether globals, builtins and class attributes may be assumed (and watched).
        limits: bounds.
        demands: filled by restarts.
    """

    function: FunctionType
    constants: dict[str, Any] = field(default_factory=dict)
    types: dict[str, type | Refinement] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    identical: dict[str, Any] = field(default_factory=dict)
    knowledge: Knowledge = field(default_factory=Knowledge)
    check: Callable[..., Any] | None = None
    assume: bool = True
    limits: Limits = field(default_factory=Limits)
    demands: Demands = field(default_factory=Demands)


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing that justifies folded values; see DESIGN of the contract in ARCHITECTURE.md.

    Attributes:
        kind: ``proved``, ``declared`` or ``watched``.
        subject: the object it is about (a module, a cell, a class ...).
        name: the attribute or variable.
        value: what it is assumed to be.
        reason: why it may be assumed.
    """

    kind: str
    subject: Any
    name: str
    value: Any
    reason: str

    @property
    def is_watched(self) -> bool:
        """Whether a change is noticed: what a class defines is meant to be watched, but is not yet."""
        return self.kind == "watched" and isinstance(self.subject, ModuleType)


@dataclass(frozen=True, slots=True)
class Note:
    """One decision of the evaluator, for `bcspec.explain`.

    `kind` is one of folded, removed, unrolled, unfolded, declined.
    """

    kind: str
    text: str
    filename: str
    line: int | None
