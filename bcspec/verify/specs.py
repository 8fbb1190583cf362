"""Makers of `Spec`s, shared by the version tables."""

from __future__ import annotations

from typing import TypedDict, Unpack

from . import kinds as k
from .model import Action, Effect, Flow, Operand, Spec, StaticCheck

OBJECT = k.OBJECT


class Options(TypedDict, total=False):
    """Fields of `Spec` that the helpers below pass on."""

    operand: Operand
    lowest: int
    limit: int
    flow: Flow
    raises: bool
    action: Action
    check: StaticCheck


class Bounds(TypedDict):
    """The fields of an argument with bounds."""

    operand: Operand
    lowest: int
    limit: int


class Named(TypedDict):
    """The field of an argument that indexes names."""

    operand: Operand


def fixed(pops: int, pushes: int = 0, **options: Unpack[Options]) -> Spec:
    """Takes plain objects, leaves plain objects."""
    return Spec(Effect(None, pops, (k.VALUE,) * pushes), **options)


def makes(kind: int, pops: int = 1, **options: Unpack[Options]) -> Spec:
    """Takes plain objects, leaves one of a known kind."""
    return Spec(Effect(None, pops, (kind,)), **options)


def peeks(
    *reads: int, pops: int = 0, pushes: tuple[int, ...] = (), **options: Unpack[Options]
) -> Spec:
    """Requires kinds of the topmost slots, bottom first; takes only `pops` of them."""
    return Spec(Effect(reads, pops, pushes), **options)


def sized(kind: int, per_item: int = 1, **options: Unpack[Options]) -> Spec:
    """Builds from as many objects as the argument says."""
    options["operand"] = Operand.COUNT
    return Spec(lambda count: Effect(None, per_item * count, (kind,)), **options)


def adds(container: int, items: int = 1, **options: Unpack[Options]) -> Spec:
    """Adds the topmost items to a container `arg` slots below them."""

    def effect(depth: int) -> Effect:
        between = (k.ANY,) * (depth - 1)
        return Effect((container, *between, *(OBJECT,) * items), items)

    options.update({"operand": Operand.COUNT, "lowest": 1})
    return Spec(effect, **options)


def bounded(limit: int, lowest: int = 0) -> Bounds:
    return {"operand": Operand.RANGE, "lowest": lowest, "limit": limit}


def group(names: str, spec: Spec) -> dict[str, Spec]:
    return dict.fromkeys(names.split(), spec)


NAME: Named = {"operand": Operand.NAME}
NOTHING = Effect(None, 0)
