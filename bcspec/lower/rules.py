"""Makers of emission rules, shared by the version tables.

A rule is called as ``rule(emission, operation)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bytecode import UNSET

if TYPE_CHECKING:
    from ..ir import Op
    from .common import Emission


def simple(name: str, arg: Any = None) -> Any:
    """An instruction that takes its operands from the top of the stack."""

    def rule(em: Emission, op: Op) -> None:
        em.arrange(op.operands)
        em.instr(name, UNSET if arg is None else arg(em, op))
        em.consume(op)

    return rule


def arg_of(em: Emission, op: Op) -> Any:
    return op.arg


def variable_of(em: Emission, op: Op) -> Any:
    return em.variable(op.arg)


def count_of(em: Emission, op: Op) -> int:
    return len(op.operands)


def into(name: str) -> Any:
    """An instruction that adds the top of the stack to a container further down."""

    def rule(em: Emission, op: Op) -> None:
        em.arrange(op.operands[1:])
        em.instr(name, em.depth_of(op.operands[0]) - len(op.operands) + 1)
        em.consume(op)

    return rule


def plain_jump(em: Emission, target: Any) -> None:
    em.go(target, "JUMP_BACKWARD" if em.is_backward(target) else "JUMP_FORWARD")
