"""The abstract domain and the abstract state.

An abstract value is one of

* `Const(obj)`: a known object;
* `Dyn(slot)`: an unknown object that the residual function keeps in the local `slot`
  (with ``maybe``: or nothing at all; with ``type``: of that exact type, or what a `Refinement` or
  one of `MARKERS` says);
* `Tmp(value)`: an unknown object on the operand stack of the residual function;
* `Ref(id)`: a *virtual* object of the heap: an allocation that has not been materialised;
* `Own(name)`: the real cell of a variable of the residual function;
* `NULL`, the empty half of a callable, and `UNBOUND`, a variable without a value.

Order of precision: everything is below `Dyn(maybe)`; `bcspec.evaluate.widening` moves up.

A virtual object is a kind, a hashable tag and a tuple of abstract values (its *kids*), so that
walking, comparing and rewriting states needs no knowledge of the kinds:

=============  ==============================================  =============================
kind           tag                                             kids
=============  ==============================================  =============================
tuple, list    None                                            the items
dict           the keys (`Hold`)                               the values
slice          None                                            start, stop, step
cell           variable, depth of its frame                    the content
function       `FunctionTag`                                   defaults, kwdefaults,
                                                               annotations, closure cells
method         None                                            function, instance
iterator       position                                        what is iterated
gencall        keyword names                                   function, arguments: a
                                                               generator not yet started
generator      `FrameTag`                                      every value of the frame
running        code                                            none: its frame is unfolded
finished       code                                            none
instance       (class as `Hold`, attribute names)              the attribute values
super          None                                            class, instance
class          None                                            the caught exception that it is
                                                               the class of
exception      class as `Hold`, where it is raised             arguments: raised and caught
                                                               where no code can look at it
handled        where it is raised                              none: what `push_exc_info` of
                                                               such an exception sets aside
=============  ==============================================  =============================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ..ir import Block, Value
from ..knowledge import Ambient, Refinement
from .source import Source

#: What `State.holding` has for the attributes and items of objects.
PARTS = "parts"

Holding = frozenset[Ambient | str]

#: Operations of the residual function that run no code of anyone's.
LOOKS = frozenset({"load_deref", "load_global", "branch"})

#: Types whose values can be told apart by value alone and whose death nobody notices.
ATOMIC_TYPES: frozenset[type] = frozenset(
    {
        int,
        bool,
        float,
        complex,
        str,
        bytes,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        CodeType,
    }
)


def is_atomic(obj: object) -> bool:
    """Whether `obj` may stand in ``co_consts`` and be compared by value."""
    kind = type(obj)
    if kind in ATOMIC_TYPES:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_atomic, obj))  # type: ignore[call-overload]
    return False


def const_key(obj: object) -> Any:
    """A hashable key that tells ``1``, ``True`` and ``1.0``, or ``0.0`` and ``-0.0``, apart."""
    kind = type(obj)
    if kind in (float, complex):
        return (kind, repr(obj))
    if kind is tuple:
        return (kind, tuple(map(const_key, obj)))  # type: ignore[call-overload]
    if kind in ATOMIC_TYPES and kind is not CodeType:
        return (kind, obj)
    return (None, id(obj))


class Hold:
    """An object as part of a key: compared as a constant, kept alive."""

    __slots__ = ("key", "obj")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.key = const_key(obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hold) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Hold({self.obj!r})"


class AVal:
    """Base of the abstract values."""

    __slots__ = ()


class Const(AVal):
    """A known object; with `deep`, its items do not change either (a list in frozen metadata)."""

    __slots__ = ("deep", "obj")

    def __init__(self, obj: Any, deep: bool = False) -> None:
        self.obj = obj
        self.deep = deep

    def __repr__(self) -> str:
        return f"Const({self.obj!r})"


class Marker(AVal):
    """NULL or UNBOUND."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Own(AVal):
    """The real cell of a variable of the residual function itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Own({self.name})"


NULL = Marker("NULL")
UNBOUND = Marker("UNBOUND")


class Dyn(AVal):
    """An unknown object in a slot of the residual function."""

    __slots__ = ("maybe", "slot", "type")

    def __init__(
        self, slot: str, type: type | Refinement | None = None, maybe: bool = False
    ) -> None:
        self.slot = slot
        self.type = type
        self.maybe = maybe

    def __repr__(self) -> str:
        return f"Dyn({self.slot}{'?' if self.maybe else ''})"


class Tmp(AVal):
    """An unknown object on the operand stack of the residual function."""

    __slots__ = ("type", "value")

    def __init__(self, value: Value, type: type | Refinement | None = None) -> None:
        self.value = value
        self.type = type


class Saved:
    """The type of a `Tmp` that may be NULL: a variable that a comprehension has set aside."""


@dataclass(frozen=True, slots=True)
class TypeFact:
    """What a value tells about the exact type of the object in a slot.

    Attributes:
        slot: the slot, which has not been bound anew.
        cls: None where the value is the type itself; else whether the type is this class.
        holds: the truth of the value if it is.
    """

    slot: str
    cls: type | None = None
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Passed:
    """A value tells whether `Request.check` has said yes.

    Attributes:
        holds: the truth of the value if it has.
    """

    holds: bool = True


class Caught:
    """The type of an exception that a handler has caught: of any class, but never None."""


class Handling:
    """The type of what `push_exc_info` sets aside: there while an exception is being handled."""


class Trace:
    """The type of the traceback of a caught exception."""


#: Types that say something, but are not exact classes.
MARKERS: tuple[type, ...] = (Saved, Caught, Handling, Trace)


class Ref(AVal):
    """A virtual object, by its number in the heap."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def __repr__(self) -> str:
        return f"Ref({self.id})"


@dataclass(frozen=True, slots=True)
class VObj:
    """A virtual object; see the table in the module's docstring."""

    kind: str
    tag: Any = None
    kids: tuple[AVal, ...] = ()

    def with_kids(self, kids: tuple[AVal, ...]) -> VObj:
        return VObj(self.kind, self.tag, kids)


@dataclass(frozen=True, slots=True)
class FunctionTag:
    """What is constant in a virtual function."""

    code: Hold
    globals: Hold


@dataclass(frozen=True, slots=True)
class FrameTag:
    """What is constant in a suspended generator; `names` and `values` say what its kids are."""

    code: CodeType
    block: Block
    index: int
    names: tuple[str, ...]
    values: tuple[Value, ...]
    cells: tuple[str, ...]
    globals: Hold


def perishable(obj: VObj) -> bool:
    """Whether a suspended generator would have code to run if it died now."""
    return obj.kind == "generator" and obj.tag.index > 0 and obj.tag.block.handler is not None


#: Kinds of virtual objects that a generator goes through.
GENERATOR_KINDS: frozenset[str] = frozenset({"gencall", "generator", "running", "finished"})

#: Continuations of the frames of generators, whose first held value is the generator.
GENERATOR_CONTS: frozenset[str] = frozenset({"iterate", "next"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One value on the operand stack of an unfolded frame.

    `temp` is the residual value that already holds it, if any: always for `Tmp`, and for a
    constant or a slot that was pushed ahead in source order (deleted again when it is not wanted).
    """

    aval: AVal
    temp: Value | None = None


class Cells(dict[str, AVal]):
    """The cells of an activation; never changed (`with_cell` makes another), so that states share it.

    Most cells of most closures are constant, and they stay so: only the others are looked at at
    each step.

    Attributes:
        varying: those that are not constant.
        fixed: names and keys of those that are.
    """

    __slots__ = ("fixed", "varying")

    def __init__(self, cells: Mapping[str, AVal]) -> None:
        super().__init__(cells)
        self.varying = {n: aval for n, aval in cells.items() if not isinstance(aval, Const)}
        self.fixed = tuple(
            (n, const_key(aval.obj)) for n, aval in cells.items() if isinstance(aval, Const)
        )

    def with_cell(self, name: str, aval: AVal) -> Cells:
        return Cells({**self, name: aval})


@dataclass(slots=True)
class Frame:
    """One unfolded activation."""

    source: Source
    block: Block
    index: int
    locals: dict[str, AVal]
    env: dict[Value, Entry]
    cells: Cells
    globals: dict[str, Any]
    cont: str = "value"
    held: tuple[AVal, ...] = ()
    function: Any = None

    def copy(self) -> Frame:
        return Frame(
            self.source,
            self.block,
            self.index,
            self.locals.copy(),
            self.env.copy(),
            self.cells,
            self.globals,
            self.cont,
            self.held,
            self.function,
        )


@dataclass(slots=True)
class State:
    """Everything that is known at one point of one path.

    `hand` holds the operands of the operation being evaluated, above everything else, and
    `held_aside` the contents of an object that is being materialised.
    `bound` lists the slots that hold an object which this path still has to let go of; True
    where the slot may as well be unbound.
    `forks` counts the dynamic branches and the protected operations passed, where control may have
    gone elsewhere: it tells unrolling from a dynamic loop.
    `verdict` is what a call of `Request.check` has said.  After a yes `holding` is what is still as that
    call has found it, since nothing has run that could have changed it: states of the thread, and
    `PARTS`, attributes and items of objects.
    """

    frames: list[Frame]
    heap: dict[int, VObj] = field(default_factory=dict)
    bound: dict[str, bool] = field(default_factory=dict)
    forks: int = 0
    verdict: Value | None = None
    holding: Holding = frozenset()
    hand: list[Entry] = field(default_factory=list)
    held_aside: list[AVal] = field(default_factory=list)

    def ran(self, name: str, keeps: Holding = frozenset()) -> None:
        """An operation of the residual function, which may have run any code, is done; whatever it has
        run leaves `keeps` as it is."""
        if name not in LOOKS:
            self.verdict = None
            self.holding &= keeps

    def copy(self) -> State:
        return State(
            [frame.copy() for frame in self.frames],
            dict(self.heap),
            dict(self.bound),
            self.forks,
            self.verdict,
            self.holding,
            list(self.hand),
            list(self.held_aside),
        )

    @property
    def top(self) -> Frame:
        return self.frames[-1]

    def leave_frames(self, depth: int) -> list[Frame]:
        """An exception leaves the frames above `depth`: generators among them are over."""
        left = self.frames[depth + 1 :]
        del self.frames[depth + 1 :]
        for frame in left:
            self.finish_generator(frame)
        return left

    def finish_generator(self, frame: Frame) -> None:
        """A frame ends: if it was that of a generator, that has finished."""
        if frame.cont in GENERATOR_CONTS:
            ref = frame.held[0]
            assert isinstance(ref, Ref)
            self.heap[ref.id] = VObj("finished", frame.source.code)

    def roots(self) -> list[AVal]:
        """Every abstract value that something holds directly."""
        found: list[AVal] = []
        for frame in self.frames:
            found += frame.locals.values()
            found += [entry.aval for entry in frame.env.values()]
            found += frame.cells.varying.values()
            found += frame.held
        found += [entry.aval for entry in self.hand]
        found += self.held_aside
        return found

    def reach(self) -> tuple[set[str], set[int]]:
        """Slots and heap objects that are still held."""
        # This runs after every step: exact types are compared, no generator is resumed.
        slots: set[str] = set()
        refs: set[int] = set()
        work = self.roots()
        for aval in work:
            kind = type(aval)
            if kind is Dyn:
                slots.add(aval.slot)  # type: ignore[attr-defined]
            elif kind is Ref and aval.id not in refs:  # type: ignore[attr-defined]
                refs.add(aval.id)  # type: ignore[attr-defined]
                work += self.heap[aval.id].kids  # type: ignore[attr-defined]
        return slots, refs

    def rewrite(self, change: Callable[[AVal], AVal]) -> None:
        """Replace every abstract value `v`, wherever it is held, by ``change(v)``."""
        for frame in self.frames:
            for name, aval in frame.locals.items():
                frame.locals[name] = change(aval)
            for value, entry in frame.env.items():
                new = change(entry.aval)
                if new is not entry.aval:
                    frame.env[value] = Entry(new, entry.temp)
            for name, aval in frame.cells.varying.items():
                new = change(aval)
                if new is not aval:
                    frame.cells = frame.cells.with_cell(name, new)
            frame.held = tuple(map(change, frame.held))
        self.held_aside[:] = map(change, self.held_aside)
        self.hand[:] = [Entry(change(entry.aval), entry.temp) for entry in self.hand]
        for number, obj in self.heap.items():
            kids = tuple(map(change, obj.kids))
            if kids != obj.kids:
                self.heap[number] = obj.with_kids(kids)
