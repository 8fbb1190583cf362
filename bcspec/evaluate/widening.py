"""Comparing abstract states, and giving up precision so that evaluation ends.

A *path* names a place in a state: ``(frame, "L", variable)``, ``(frame, "E", position)`` on the
operand stack, ``(frame, "C", cell)``, ``(frame, "H", position)``, followed by kid numbers when the
place is inside a virtual object.  `describe` lists the paths with what stands there; slots and
virtual objects are named by the first path that mentions them, so that two states that differ only
in the choice of slots look the same.  Widening a path means: from now on, whenever this point is
reached, the value there is dynamic and lives in a slot of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..ir import Value
from .domain import (
    UNBOUND,
    AVal,
    Const,
    Dyn,
    Entry,
    Frame,
    Ref,
    Saved,
    State,
    Tmp,
    const_key,
)

if TYPE_CHECKING:
    from .machine import Machine

Path = tuple[Any, ...]
Description = dict[Path, Any]


def places(state: State) -> Iterator[tuple[Path, AVal]]:
    """The top-level places of a state, in a fixed order; unbound variables are left out."""
    for number, frame in enumerate(state.frames):
        bound = frame.locals
        for name in frame.source.local_names:
            aval = bound.get(name, UNBOUND)
            if aval is not UNBOUND:
                yield (number, "L", name), aval
        for position, entry in enumerate(frame.env.values()):
            yield (number, "E", position), entry.aval
        for name, aval in frame.cells.varying.items():
            yield (number, "C", name), aval
        for position, aval in enumerate(frame.held):
            yield (number, "H", position), aval


def describe(state: State, exact: bool = False) -> Any:
    """What stands at each place.

    Args:
        state: the state; its containers must be settled.
        exact: tell slots apart by name, too.

    Returns:
        A dict from path to description, or (`exact`) a hashable tuple with the control point.
    """
    result: Description = {}
    first_slot: dict[str, Path] = {}
    first_ref: dict[int, Path] = {}
    heap = state.heap

    def visit(path: Path, aval: AVal) -> None:
        describer = DESCRIBERS.get(type(aval))
        if describer is not None:
            result[path] = describer(aval)
        elif type(aval) is Dyn:
            name = aval.slot if exact else first_slot.setdefault(aval.slot, path)
            result[path] = ("d", name, aval.type, aval.maybe)
        elif type(aval) is Ref:
            seen = first_ref.get(aval.id)
            if seen is not None:
                result[path] = ("r", seen)
                return
            first_ref[aval.id] = path
            obj = heap[aval.id]
            result[path] = ("o", obj.kind, obj.tag, len(obj.kids))
            for index, kid in enumerate(obj.kids):
                visit((*path, index), kid)
        else:
            result[path] = aval

    for path, aval in places(state):
        visit(path, aval)
    for number, frame in enumerate(state.frames):
        if frame.cells.fixed:
            result[number, "C"] = frame.cells.fixed
    if exact:
        return (control_point(state), tuple(result.items()))
    return result


#: Descriptions that do not depend on where else a value is mentioned.
DESCRIBERS: dict[type, Any] = {
    Const: lambda aval: ("c", const_key(aval.obj)),
    Tmp: lambda aval: ("t", aval.type),
}


def control_point(state: State) -> tuple[Any, ...]:
    """Where control is: block, operation and continuation of every frame.

    The positions of known iterators count as control: each round of an unrolled loop is a point of
    its own.  So do virtual exceptions: where one is handled is not where real ones are.  And so does
    whether what has been checked still holds.
    """
    points = (
        (frame.block, frame.index, frame.cont, *rounds(state, frame)) for frame in state.frames
    )
    return (*points, state.holding)


def rounds(state: State, frame: Frame) -> Iterator[Any]:
    """Positions of the iterators, and virtual exceptions, on the operand stack of a frame."""
    for entry in frame.env.values():
        yield from positions(state, entry.aval)


def positions(state: State, aval: AVal) -> Iterator[Any]:
    """The position of a known iterator, or those of the iterators that a suspended generator holds."""
    if not isinstance(aval, Ref):
        return
    obj = state.heap[aval.id]
    if obj.kind in ("iterator", "zipped", "exception", "handled"):
        yield obj.tag
    elif obj.kind == "generator":
        for kid in obj.kids:
            yield from positions(state, kid)


def differences(old: Description, new: Description) -> list[Path]:
    """The topmost paths at which two descriptions of one point differ."""
    found: list[Path] = []
    for path in [*old, *(path for path in new if path not in old)]:
        one, two = at_path(old, path), at_path(new, path)
        if one == two:
            continue
        if len(path) == 2:  # constant cells
            names = {name for name, _ in set(one or ()) ^ set(two or ())}
            found += [place for name in sorted(names) if (place := (*path, name)) not in found]
        elif not any(path[: len(above)] == above for above in found):
            found.append(path)
    return found


def at_path(description: Description, path: Path) -> Any:
    """What a description says of a path: of variables it names only those that are bound."""
    return description.get(path, UNBOUND if path[1] == "L" and len(path) == 3 else None)


def at(state: State, path: Path) -> AVal | None:
    """The abstract value at `path`, or None where the state has no such place."""
    number, area, name, *kids = path
    frame = state.frames[number]
    aval: AVal | None
    if area == "L":
        aval = frame.locals.get(name, UNBOUND)
    elif area == "C":
        aval = frame.cells.get(name)
    elif area == "E":
        aval = list(frame.env.values())[name].aval
    else:
        aval = frame.held[name]
    for kid in kids:
        if not isinstance(aval, Ref) or kid >= len(state.heap[aval.id].kids):
            return None
        aval = state.heap[aval.id].kids[kid]
    return aval


def put(state: State, path: Path, new: AVal) -> None:
    """Replace the abstract value at `path`."""
    number, area, name, *kids = path
    frame = state.frames[number]
    if kids:
        ref = at(state, path[:-1])
        assert isinstance(ref, Ref)
        obj = state.heap[ref.id]
        changed = list(obj.kids)
        changed[kids[-1]] = new
        state.heap[ref.id] = obj.with_kids(tuple(changed))
    elif area == "L":
        frame.locals[name] = new
    elif area == "C":
        frame.cells = frame.cells.with_cell(name, new)
    elif area == "E":
        value = list(frame.env)[name]
        temp = new.value if isinstance(new, Tmp) else None
        frame.env[value] = Entry(new, temp)
    else:
        held = list(frame.held)
        held[name] = new
        frame.held = tuple(held)


def canonical_slot(path: Path) -> str:
    """The slot in which a widened place lives."""
    number, area, *names = path
    if area == "L" and len(names) == 1:
        return str(names[0]) if number == 0 else f"{names[0]}@{number}"
    return "w." + ".".join(map(str, (number, area.lower(), *names)))


def widen(machine: Machine, paths: dict[Path, bool]) -> None:
    """Make the places `paths` dynamic in the present state.

    Args:
        machine: its state is changed, and the moves are emitted.
        paths: for each place, whether it may be unbound at this point.
    """
    machine.settle_all()
    for path in paths:
        if is_operand(path):
            onto_stack(machine, path, paths[path])
    into_slots(machine, {p: maybe for p, maybe in paths.items() if not is_operand(p)})
    machine.collect()


def is_operand(path: Path) -> bool:
    """Whether a place is on the operand stack itself, not inside a virtual object."""
    return path[1] == "E" and len(path) == 3


def onto_stack(machine: Machine, path: Path, maybe: bool) -> None:
    """A widened operand becomes a temporary of unknown type on the physical stack.

    One that may be NULL is what a comprehension has set aside of a variable.
    """
    state = machine.state
    frame = state.frames[path[0]]
    value = list(frame.env)[path[2]]
    aval = frame.env[value].aval
    if aval is UNBOUND:
        (null,) = machine.emit("null", None, (), 1)
        put(state, path, Tmp(null, Saved))
    elif isinstance(aval, Dyn) and aval.maybe:
        frame.env[value] = Entry(UNBOUND)
        if machine.is_held(aval.slot):
            raise machine.generic_from_here("a variable that may be unbound would have to move")
        (moved,) = machine.emit("load_clear", aval.slot, (), 1)
        state.bound.pop(aval.slot, None)
        put(state, path, Tmp(moved, Saved))
    else:
        machine.make_physical(frame, value)
        put(state, path, Tmp(machine.value_of(frame.env[value]), Saved if maybe else None))


def into_slots(machine: Machine, paths: dict[Path, bool]) -> None:
    """Move every widened place to its canonical slot, all at once (a parallel move)."""
    state = machine.state
    # Values on their way: all are on the stack before the first is stored.
    loads: list[tuple[Value, str]] = []
    built: set[Path] = set()
    for path in sorted(paths, key=len):
        if isinstance(at(state, path), Ref):
            loads.append((fetch(machine, path), canonical_slot(path)))
            built.add(path)
    targets = {canonical_slot(path) for path in paths if at(state, path) is not None}
    evict(machine, paths, targets, loads)
    empty: list[str] = []
    for path, maybe in paths.items():
        aval = at(state, path)
        slot = canonical_slot(path)
        if aval is None:
            continue
        possibly = maybe or (isinstance(aval, Dyn) and aval.maybe)
        if aval is UNBOUND and path not in built:
            empty.append(slot)
        elif path not in built and not (isinstance(aval, Dyn) and aval.slot == slot):
            loads.append((fetch(machine, path), slot))
        put(state, path, Dyn(slot, None, possibly))
    for value, slot in reversed(loads):
        machine.store(slot, value)
    for slot in empty:
        if slot in state.bound:
            machine.release(slot)
    for path in paths:
        aval = at(state, path)
        if isinstance(aval, Dyn) and aval.maybe:
            state.bound[aval.slot] = True


def evict(
    machine: Machine, paths: dict[Path, bool], targets: set[str], loads: list[tuple[Value, str]]
) -> None:
    """Whoever else lives in a target slot moves out."""
    state = machine.state
    new_home: dict[str, str] = {}
    for path, aval in every_place(state):
        if not isinstance(aval, Dyn) or aval.slot not in targets or path in paths:
            continue
        if aval.slot not in new_home:
            new_home[aval.slot] = machine.fresh_slot(aval.slot)
            loads.append((fetch(machine, path), new_home[aval.slot]))
        put(state, path, Dyn(new_home[aval.slot], aval.type, aval.maybe))


def fetch(machine: Machine, path: Path) -> Value:
    """Load the value of a place that is about to move; a virtual object is built."""
    state = machine.state
    aval = at(state, path)
    assert aval is not None
    if isinstance(aval, Dyn) and aval.maybe:
        raise machine.generic_from_here("a variable that may be unbound would have to move")
    if isinstance(aval, Ref):
        put(state, path, UNBOUND)
        state.hand.append(Entry(aval))
        machine.realise(len(state.hand) - 1)
        return machine.value_of(state.hand.pop())
    (value,) = machine.load(aval)
    return value


def every_place(state: State) -> list[tuple[Path, AVal]]:
    """All places, those inside virtual objects too, each virtual object once."""
    result: list[tuple[Path, AVal]] = []
    seen: set[int] = set()

    def visit(path: Path, aval: AVal) -> None:
        result.append((path, aval))
        if isinstance(aval, Ref) and aval.id not in seen:
            seen.add(aval.id)
            for index, kid in enumerate(state.heap[aval.id].kids):
                visit((*path, index), kid)

    for path, aval in places(state):
        visit(path, aval)
    return result
