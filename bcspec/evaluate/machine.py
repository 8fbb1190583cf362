"""The residual machine: what rules use to read and change the abstract state and to emit code.

One `Machine` evaluates one function once.  `state` is the abstract state of the path being
followed and `cur` the residual block being filled.  Invariants:

* The physical operand stack at any point is: the residual values of all entries of all frames,
  bottom frame first, in order, and then those of the hand.
* Residual blocks take exactly the physical stack as parameters.
* A slot in `state.bound` holds an object; when no abstract value mentions it any more it is
  deleted at once, so objects die where they would have died.
"""

from __future__ import annotations

from typing import Any

from ..ir import Block, Edge, Handler, Op, Value
from ..knowledge import Refinement
from .conversion import NEVER_STOPS
from .domain import (
    ATOMIC_TYPES,
    MARKERS,
    UNBOUND,
    AVal,
    Caught,
    Const,
    Dyn,
    Entry,
    Frame,
    Holding,
    Ref,
    State,
    Tmp,
    VObj,
    perishable,
)
from .emission import UNSET, Emitter, Restart
from .materialise import MATERIALISERS
from .widening import describe


class Machine(Emitter):
    """The hand, slots and deaths, protection and materialisation."""

    def emit_raising(
        self,
        name: str,
        arg: Any,
        kept: list[Value],
        results: int,
        keeps: Holding = frozenset(),
    ) -> tuple[Value, ...]:
        """Append an operation that may raise; it consumes the whole hand.

        `kept` are values of the top frame's environment that the operation only looks at, `keeps` is what
        it leaves as it is.
        """
        self.protect(name)
        self.state.ran(name, keeps)
        operands = self.kept_temps(kept) + self.hand_temps()
        self.state.hand.clear()
        return self.emit(name, arg, operands, results, quiet=False)

    def kept_temps(self, kept: list[Value]) -> list[Value]:
        env = self.state.top.env
        return [self.value_of(env[value]) for value in kept]

    def hand_temps(self) -> list[Value]:
        return [self.value_of(entry) for entry in self.state.hand]

    # -- the hand --------------------------------------------------------------------

    def take(self, op: Op) -> list[Entry]:
        """Move the consumed operands of `op` from the environment into the (empty) hand."""
        env, hand = self.state.top.env, self.state.hand
        for value in op.operands[op.keeps :]:
            hand.append(env.pop(value))
        return hand

    def grab(self) -> list[Entry]:
        """Empty the hand into a plain list, for rules that place every entry somewhere else."""
        entries = list(self.state.hand)
        self.state.hand.clear()
        return entries

    def give(self, op: Op, *entries: Entry) -> None:
        """Bind the results of `op`."""
        env = self.state.top.env
        for value, entry in zip(op.results, entries, strict=True):
            env[value] = entry

    def discard(self, entry: Entry) -> None:
        """Let go of an entry that no residual operation wants."""
        if entry.temp is not None:
            if isinstance(entry.aval, Tmp):
                self.check_handled()
                if may_die(entry.aval):
                    self.state.ran("drop")
            self.emit("drop", None, (entry.temp,))
        elif isinstance(entry.aval, Ref):
            obj = self.state.heap[entry.aval.id]
            loose = [kid.value for kid in obj.kids if isinstance(kid, Tmp)]
            for value in reversed(loose):  # a container whose items are still on the stack
                self.emit("drop", None, (value,))
            if loose:
                self.state.heap[entry.aval.id] = obj.with_kids(())

    def discard_hand(self) -> None:
        for entry in reversed(self.grab()):
            self.discard(entry)
        self.collect()

    def discard_hand_keeping(self, *avals: AVal) -> None:
        """Empty the hand; `avals`, which the caller is about to bind, stay alive."""
        for entry in reversed(self.grab()):
            self.discard(entry)

    def realise_hand(self) -> None:
        """Bring every entry of the hand onto the physical stack."""
        hand = self.state.hand
        index = 0
        while index < len(hand):
            self.realise(index)
            index += 1

    def realise(self, index: int) -> None:
        """Bring one entry of the hand onto the physical stack; a slot nobody needs afterwards is moved."""
        hand = self.state.hand
        entry = hand[index]
        aval = entry.aval
        if isinstance(aval, Tmp):
            return
        if isinstance(aval, Ref):
            self.materialise_hand(index)
            return
        value = entry.temp
        if value is None:
            (value,) = self.load(aval)
        hand[index] = Entry(Tmp(value, known_type(aval)), value)
        if isinstance(aval, Dyn) and aval.slot in self.state.bound and not self.is_held(aval.slot):
            self.release(aval.slot)

    def make_physical(self, frame: Frame, value: Value) -> None:
        """Turn an entry of a frame's operand stack into a temporary, where it stands."""
        entry = frame.env[value]
        if isinstance(entry.aval, Tmp):
            return
        frame.env[value] = Entry(UNBOUND)
        self.state.hand.append(entry)
        self.realise(len(self.state.hand) - 1)
        frame.env[value] = self.state.hand.pop()

    # -- slots -----------------------------------------------------------------------

    def is_held(self, slot: str) -> bool:
        """Whether any abstract value still mentions `slot`."""
        for aval in self.state.top.locals.values():
            if isinstance(aval, Dyn) and aval.slot == slot:
                return True
        return slot in self.state.reach()[0]

    def release(self, slot: str) -> None:
        """Delete a bound slot."""
        self.check_handled()
        self.state.ran("delete")
        self.emit("clear" if self.state.bound.pop(slot) else "delete", slot)

    def collect(self) -> None:
        """Delete every slot that nothing mentions any more, and forget dead virtual objects."""
        state = self.state
        slots, refs = state.reach()
        self.forget_others(refs)
        for slot in [slot for slot in state.bound if slot not in slots]:
            self.release(slot)

    def forget_others(self, refs: set[int]) -> None:
        """Forget the virtual objects that are not among `refs`: they are dead."""
        state = self.state
        if len(refs) == len(state.heap):
            return
        for number, obj in state.heap.items():
            if number not in refs and perishable(obj):
                raise self.would_run_at_death(obj)
        state.heap = {number: obj for number, obj in state.heap.items() if number in refs}

    def would_run_at_death(self, generator: VObj) -> Restart:
        return Restart(
            "no_unfold", generator.tag.code, "a generator dies while it waits in a protected block"
        )

    def check_survivors(self, state: State | None) -> None:
        """No suspended generator with code to run may die on the way to `state` (None: all die)."""
        waiting = [(number, obj) for number, obj in self.state.heap.items() if perishable(obj)]
        if not waiting:
            return
        alive = state.reach()[1] if state is not None else set()
        held = self.state.reach()[1]
        for number, obj in waiting:
            if number in held and number not in alive:
                raise self.would_run_at_death(obj)

    def to_slot(self, entry: Entry, hint: str) -> AVal:
        """Turn an entry into an abstract value that may be held anywhere: a temporary is stored."""
        aval = entry.aval
        if isinstance(aval, Tmp):
            slot = self.fresh_slot(hint)
            self.store(slot, aval.value)
            return Dyn(slot, aval.type)
        if entry.temp is not None:
            self.emit("drop", None, (entry.temp,))
        if isinstance(aval, Ref):
            self.settle(aval)
        return aval

    def store(self, slot: str, value: Value) -> None:
        self.emit("store", slot, (value,))
        self.state.bound[slot] = False
        self.type_facts = {v: fact for v, fact in self.type_facts.items() if fact.slot != slot}

    # -- virtual objects -------------------------------------------------------------

    def object(self, aval: AVal, *kinds: str) -> VObj | None:
        """The virtual object behind `aval`, settled, if it is one of these kinds."""
        if not isinstance(aval, Ref):
            return None
        obj = self.state.heap[aval.id]
        if kinds and obj.kind not in kinds:
            return None
        self.settle(aval)
        return self.state.heap[aval.id]

    def settle(self, ref: Ref) -> None:
        """Move the items of a just-built container from the stack into slots."""
        obj = self.state.heap[ref.id]
        if Tmp not in map(type, obj.kids):
            return
        kids = list(obj.kids)
        for index in reversed(range(len(kids))):
            kid = kids[index]
            if isinstance(kid, Tmp):
                kids[index] = self.to_slot(Entry(kid, kid.value), "item")
        self.state.heap[ref.id] = obj.with_kids(tuple(kids))

    def settle_all(self) -> None:
        unsettled = [n for n, obj in self.state.heap.items() if Tmp in map(type, obj.kids)]
        for number in unsettled:
            self.settle(Ref(number))

    def materialise_hand(self, index: int) -> None:
        """Build the virtual object at `index` of the hand for real."""
        hand = self.state.hand
        ref = hand[index].aval
        assert isinstance(ref, Ref)
        hand[index] = Entry(UNBOUND)
        shared = ref.id in self.state.reach()[1]
        hand[index] = Entry(ref)
        obj = self.state.heap[ref.id]
        if shared:
            self.settle(ref)
        MATERIALISERS[obj.kind](self, index, ref, shared)
        self.collect_refs()

    def collect_refs(self) -> None:
        self.forget_others(self.state.reach()[1])

    def materialise(self, ref: Ref) -> None:
        """Build a virtual object that something other than the hand holds; it moves to a slot."""
        self.state.hand.append(Entry(ref))
        self.realise(len(self.state.hand) - 1)
        entry = self.state.hand.pop()
        self.discard(entry)

    def share(self, index: int, ref: Ref, type: type | None) -> None:
        """After building the object at `index`: give everyone else who held `ref` the real one."""
        entry = self.state.hand[index]
        slot = self.fresh_slot("obj")
        (copy,) = self.emit("copy", None, (self.value_of(entry),), 1)
        self.store(slot, copy)
        new = Dyn(slot, type)
        self.state.rewrite(lambda a: new if isinstance(a, Ref) and a.id == ref.id else a)

    # -- protection ------------------------------------------------------------------

    def find_handler(self, name: str = "") -> tuple[int, Handler] | None:
        """The innermost frame where an exception of the operation `name` is handled."""
        frames = self.state.frames
        for depth in range(len(frames) - 1, 0, -1):
            source = frames[depth].source
            handler = source.handler_of(frames[depth].block)
            if handler is None or (handler is source.conversion and name in NEVER_STOPS):
                continue
            return depth, handler
        outermost = frames[0].block.handler
        return (0, outermost) if outermost is not None else None

    def check_handled(self) -> None:
        """Code that could look at the exception being handled needs a real one."""
        for number, obj in self.state.heap.items():
            if obj.kind == "handled" and number in self.state.reach()[1]:
                raise Restart("real_raises", obj.tag, "an exception is looked at")

    def protect(self, name: str = "") -> None:
        """Make sure that an exception raised by the next operation goes where it should.

        A residual block has one handler.  If the state that the handler would see differs from
        what an earlier operation of the block needs, a new block begins.
        """
        self.check_handled()
        found = self.find_handler(name)
        if found is None:
            self.check_survivors(None)
            if self.protected is not UNSET and self.protected is not None:
                self.cut()
            self.protected = None
            return
        depth, handler = found
        if handler is not self.state.frames[depth].source.conversion:
            self.state.forks += 1  # what is around a generator raises again: nothing forks there
        self.settle_all()
        prefix = self.prefix_temps(depth, handler)
        if tuple(self.cur.params[: len(prefix)]) != tuple(prefix):
            self.cut()
            prefix = self.prefix_temps(depth, handler)
        target = self.landing(depth, handler)
        if self.protected is UNSET:
            self.cur.handler = Handler(target, tuple(prefix), handler.lasti)
            self.protected = target
        elif self.protected is not target:
            self.cut()
            self.protect(name)

    def prefix_entries(self, depth: int, handler: Handler) -> list[Entry]:
        """Entries that are still on the stack when the handler of frame `depth` begins."""
        frames = self.state.frames
        entries = [entry for frame in frames[:depth] for entry in frame.env.values()]
        return entries + [frames[depth].env[value] for value in handler.args]

    def prefix_temps(self, depth: int, handler: Handler) -> list[Value]:
        entries = self.prefix_entries(depth, handler)
        return [e.aval.value for e in entries if isinstance(e.aval, Tmp)]

    def landing(self, depth: int, handler: Handler) -> Block:
        """The residual block where the handler of frame `depth` begins in the present state."""
        state = self.state.copy()
        state.hand.clear()
        state.ran("landing")
        state.leave_frames(depth)
        frame = state.frames[depth]
        frame.env = {value: frame.env[value] for value in handler.args}
        self.check_survivors(state)
        block = Block(0)
        for lower in state.frames:
            for value, entry in lower.env.items():
                lower.env[value] = landed(entry, block)
        values = list(frame.env.values())
        frame.block, frame.index = handler.target, 0
        params = handler.target.params
        extra = [Value() for _ in range(len(params) - len(values))]
        block.params.extend(extra)
        types: list[type | None] = [None] * (len(extra) - 1) + [Caught]
        values += [Entry(Tmp(v, t), v) for v, t in zip(extra, types, strict=True)]
        frame.env = dict(zip(params, values, strict=True))
        state.forks += 1
        key = (describe(state, exact=True), tuple(sorted(state.bound)))
        known = self.landings.get(key)
        if known is None:
            self.landings[key] = known = block
            self.pending.append((state, block))
        return known

    # -- residual blocks -------------------------------------------------------------

    def cut(self) -> None:
        """Go on in a new residual block."""
        self.settle_all()
        self.strip()
        block = Block(0)
        args = self.physical()
        self.finish("jump", None, (), [Edge(block, tuple(args))])
        self.reparam(self.state, block)
        self.start(block)


def landed(entry: Entry, block: Block) -> Entry:
    """An entry as the handler block `block` sees it: temporaries are its parameters."""
    if not isinstance(entry.aval, Tmp):
        return Entry(entry.aval)
    value = Value()
    block.params.append(value)
    return Entry(Tmp(value, entry.aval.type), value)


def may_die(aval: AVal) -> bool:
    """Whether letting go of a temporary may be the end of an object, and run its `__del__`; not if something
    is known of it as a part of another object, which holds it."""
    return refinement(aval) is None and known_type(aval) not in ATOMIC_TYPES


def known_type(aval: AVal) -> type | None:
    """The exact type of what `aval` stands for, if known."""
    if isinstance(aval, Const):
        return type(aval.obj)
    if isinstance(aval, (Dyn, Tmp)):
        if isinstance(aval.type, Refinement):
            return aval.type.cls
        return aval.type if aval.type not in MARKERS else None
    return None


def known_of(aval: AVal) -> type | Refinement | None:
    """All that is known of an unknown object."""
    return aval.type if isinstance(aval, (Dyn, Tmp)) else None


def refinement(aval: AVal) -> Refinement | None:
    """What is known of an unknown object besides its class."""
    known = known_of(aval)
    return known if isinstance(known, Refinement) else None


def never_none(aval: AVal) -> bool:
    """Whether `aval` is certainly not None."""
    if isinstance(aval, Const):
        return aval.obj is not None
    if isinstance(aval, (Dyn, Tmp)):
        exact = known_type(aval)
        return aval.type is Caught or (exact is not None and exact is not type(None))
    return isinstance(aval, Ref)
