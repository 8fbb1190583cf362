"""Makers of lifting rules, shared by the version tables.

A rule is called as ``rule(simulation, instruction)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .common import Simulation


def arg_of(arg: Any) -> Any:
    return arg


def no_arg(arg: Any) -> Any:
    return None


def simple(name: str, pops: int, pushes: int, keeps: int = 0, arg: Any = no_arg) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        sim.op(name, arg(instr.arg), pops, pushes, keeps)

    return rule


def cell(name: str, pops: int, pushes: int) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        sim.op(name, sim.variable(instr.arg), pops, pushes)

    return rule


def sized(name: str, size: Any, pushes: int = 1, arg: Any = arg_of) -> Any:
    """An operation whose number of operands depends on its argument."""

    def rule(sim: Simulation, instr: Any) -> None:
        sim.op(name, arg(instr.arg), size(instr.arg), pushes)

    return rule


def into(name: str, extra: int) -> Any:
    """An operation that adds `extra` values on top of the stack to a container further down."""

    def rule(sim: Simulation, instr: Any) -> None:
        values = sim.pop(extra)
        sim.emit(name, None, (sim.stack[-instr.arg], *values), 0)

    return rule


def branch(kind: str) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        sim.branch(kind, sim.pop(1)[0], instr.arg, sim.fallthrough)

    return rule


def jump(arg: Any) -> Any:
    def rule(sim: Simulation, instr: Any) -> None:
        sim.jump(instr.arg, arg)

    return rule
