"""References that are borrowed from a slot of the frame, for versions that load them so.

The interpreter does not count a borrowed reference: it dangles as soon as its slot is given another
value.  The compiler borrows only what is consumed in the same run of straight-line code, with the
slot untouched until then; code that goes further than that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from . import kinds as k
from .actions import load_fast as load_owned
from .interp import Machine
from .model import Action, Spec


def load_fast(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a local, borrowed."""
    load_owned(m, stack, index, arg)
    stack[-1] = k.Borrowed(stack[-1], arg)


def push_slot(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push what a slot that is known to be bound holds, borrowed."""
    stack.append(k.Borrowed(m.env.get(arg, k.VALUE), arg))


def keeping_lenders(specs: Mapping[str, Spec], names: str) -> dict[str, Spec]:
    """Specs of instructions that give a slot another value: nothing may be borrowed from it.

    Args:
        specs: by name.
        names: those to change, separated by blanks; their argument is a slot, or two.
    """
    return {
        name: replace(specs[name], action=_keeping(specs[name].action, name.count("_FAST")))
        for name in names.split()
    }


def _keeping(action: Action | None, slots: int) -> Action:
    assert action is not None

    def kept(m: Machine, stack: list[int], index: int, arg: int) -> None:
        action(m, stack, index, arg)
        changed = (arg >> 4, arg & 15) if slots == 2 else (arg,)
        for kind in stack:
            if isinstance(kind, k.Borrowed) and kind.lender in changed:
                m.fail(f"slot {kind.lender} changes while it lends a reference")

    return kept
