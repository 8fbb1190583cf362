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

from types import CellType
from typing import TYPE_CHECKING, Any

from ..ir import Block, Edge, Handler, Op, Value
from .domain import NULL, UNBOUND, AVal, Const, Dyn, Entry, Frame, Own, Ref, State, Tmp, VObj
from .materialise import MATERIALISERS
from .widening import describe

if TYPE_CHECKING:
    from .request import Request

_UNSET = object()


class Restart(Exception):
    """Evaluation has to start again with one more thing that stays generic.

    `demand` is added to the set of that `kind` in `bcspec.evaluate.request.Demands`.
    """

    def __init__(self, kind: str, demand: Any, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.demand = demand
        self.why = why


class Machine:
    """State, emission, protection and materialisation."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.state = State([])
        self.blocks: list[Block] = []
        self.cur = Block(0)
        self.protected: Any = _UNSET
        self.landings: dict[Any, Block] = {}
        self.pending: list[tuple[State, Block]] = []
        self.freevars: dict[str, CellType] = {}
        self.counter = 0
        self.emitted = 0

    # -- names -----------------------------------------------------------------------

    def fresh_slot(self, hint: str) -> str:
        """A slot name that nothing else uses."""
        self.counter += 1
        return f"{hint.split('.')[0]}.{self.counter}"

    def new_ref(self, obj: VObj) -> Ref:
        """Put a virtual object on the heap."""
        self.counter += 1
        self.state.heap[self.counter] = obj
        return Ref(self.counter)

    def generic_from_here(self, why: str) -> Restart:
        """What to raise when the innermost unfolded function cannot be unfolded after all."""
        frames = self.state.frames
        if len(frames) == 1:
            return Restart("refused", None, why)
        return Restart("no_unfold", frames[-1].source.code, why)

    # -- emission --------------------------------------------------------------------

    def site(self) -> tuple[Any, Any]:
        """Position and code object for what is emitted now.

        Code from another file is reported at the place in the function's own file that led to it.
        """
        frames = self.state.frames
        home = frames[0].source.code.co_filename
        for frame in reversed(frames):
            if frame.source.code.co_filename == home:
                op = current_op(frame)
                return op.pos, frame.source.code
        return None, None

    def emit(
        self, name: str, arg: Any, operands: Any = (), results: int = 0, *, quiet: bool = True
    ) -> tuple[Value, ...]:
        """Append an operation that cannot raise (`emit_raising` is for those that can)."""
        pos, code = self.site()
        op = Op(name, arg, operands, [Value() for _ in range(results)], pos, code, quiet)
        self.cur.ops.append(op)
        self.emitted += 1
        return op.results

    def emit_prologue(self, name: str, arg: Any, operands: Any, results: int) -> tuple[Value, ...]:
        """Append an operation before any frame exists."""
        op = Op(name, arg, operands, [Value() for _ in range(results)], None, None)
        self.cur.ops.append(op)
        return op.results

    def free_name(self, cell: CellType, name: str) -> str:
        """The free variable of the residual function through which an existing cell is reached."""
        for known, other in self.freevars.items():
            if other is cell:
                return known
        unique = name
        while unique in self.freevars or unique in self.request.function.__code__.co_cellvars:
            self.counter += 1
            unique = f"{name}.{self.counter}"
        self.freevars[unique] = cell
        return unique

    def emit_raising(
        self, name: str, arg: Any, kept: list[Value], results: int
    ) -> tuple[Value, ...]:
        """Append an operation that may raise; it consumes the whole hand.

        `kept` are values of the top frame's environment that the operation only looks at.
        """
        self.protect()
        operands = self.kept_temps(kept) + self.hand_temps()
        self.state.hand.clear()
        return self.emit(name, arg, operands, results, quiet=False)

    def kept_temps(self, kept: list[Value]) -> list[Value]:
        env = self.state.top.env
        return [self.value_of(env[value]) for value in kept]

    def hand_temps(self) -> list[Value]:
        return [self.value_of(entry) for entry in self.state.hand]

    @staticmethod
    def value_of(entry: Entry) -> Value:
        assert entry.temp is not None
        return entry.temp

    def const_entry(self, obj: Any) -> Entry:
        """A known object, pushed in source order (deleted later when it is not needed)."""
        (value,) = self.emit_const(obj)
        return Entry(Const(obj), value)

    def emit_const(self, obj: Any) -> tuple[Value, ...]:
        """Push a known object.  Without assumptions there are no cells: slices are built."""
        if type(obj) is CellType:
            return self.emit("load_closure", self.free_name(obj, "cell"), (), 1)
        if type(obj) is not slice or self.request.assume:
            return self.emit("const", obj, (), 1)
        parts = [self.emit("const", part, (), 1)[0] for part in (obj.start, obj.stop, obj.step)]
        return self.emit("build_slice", None, parts, 1)

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

    def load(self, aval: AVal) -> tuple[Value, ...]:
        """Emit what puts a constant, NULL or a slot on the stack."""
        if isinstance(aval, Const):
            return self.emit_const(aval.obj)
        if isinstance(aval, Dyn):
            return self.emit("load", aval.slot, (), 1)
        if isinstance(aval, Own):
            return self.emit("load_closure", aval.name, (), 1)
        assert aval is NULL, aval
        return self.emit("null", None, (), 1)

    # -- slots -----------------------------------------------------------------------

    def is_held(self, slot: str) -> bool:
        """Whether any abstract value still mentions `slot`."""
        for aval in self.state.top.locals.values():
            if isinstance(aval, Dyn) and aval.slot == slot:
                return True
        return slot in self.state.reach()[0]

    def release(self, slot: str) -> None:
        """Delete a bound slot."""
        self.emit("clear" if self.state.bound.pop(slot) else "delete", slot)

    def collect(self) -> None:
        """Delete every slot that nothing mentions any more, and forget dead virtual objects."""
        state = self.state
        slots, refs = state.reach()
        if len(refs) != len(state.heap):
            state.heap = {number: obj for number, obj in state.heap.items() if number in refs}
        for slot in [slot for slot in state.bound if slot not in slots]:
            self.release(slot)

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
        if not any(isinstance(kid, Tmp) for kid in obj.kids):
            return
        kids = list(obj.kids)
        for index in reversed(range(len(kids))):
            kid = kids[index]
            if isinstance(kid, Tmp):
                kids[index] = self.to_slot(Entry(kid, kid.value), "item")
        self.state.heap[ref.id] = obj.with_kids(tuple(kids))

    def settle_all(self) -> None:
        for number in list(self.state.heap):
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
        refs = self.state.reach()[1]
        self.state.heap = {n: obj for n, obj in self.state.heap.items() if n in refs}

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

    def find_handler(self) -> tuple[int, Handler] | None:
        """The innermost frame whose current block has a handler."""
        frames = self.state.frames
        for depth in range(len(frames) - 1, -1, -1):
            handler = frames[depth].block.handler
            if handler is not None:
                return depth, handler
        return None

    def protect(self) -> None:
        """Make sure that an exception raised by the next operation goes where it should.

        A residual block has one handler.  If the state that the handler would see differs from
        what an earlier operation of the block needs, a new block begins.
        """
        found = self.find_handler()
        if found is None:
            if self.protected is not _UNSET and self.protected is not None:
                self.cut()
            self.protected = None
            return
        depth, handler = found
        self.state.forks += 1
        self.settle_all()
        prefix = self.prefix_temps(depth, handler)
        if tuple(self.cur.params[: len(prefix)]) != tuple(prefix):
            self.cut()
            prefix = self.prefix_temps(depth, handler)
        target = self.landing(depth, handler)
        if self.protected is _UNSET:
            self.cur.handler = Handler(target, tuple(prefix), handler.lasti)
            self.protected = target
        elif self.protected is not target:
            self.cut()
            self.protect()

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
        del state.frames[depth + 1 :]
        frame = state.frames[depth]
        frame.env = {value: frame.env[value] for value in handler.args}
        block = Block(0)
        for lower in state.frames:
            for value, entry in lower.env.items():
                lower.env[value] = landed(entry, block)
        values = list(frame.env.values())
        frame.block, frame.index = handler.target, 0
        params = handler.target.params
        extra = [Value() for _ in range(len(params) - len(values))]
        block.params.extend(extra)
        values += [Entry(Tmp(value), value) for value in extra]
        frame.env = dict(zip(params, values, strict=True))
        state.forks += 1
        key = (describe(state, exact=True), tuple(sorted(state.bound)))
        known = self.landings.get(key)
        if known is None:
            self.landings[key] = known = block
            self.pending.append((state, block))
        return known

    # -- residual blocks -------------------------------------------------------------

    def strip(self) -> None:
        """Drop values that were pushed ahead but can be loaded again where they are wanted."""
        for frame in self.state.frames:
            for value, entry in frame.env.items():
                if entry.temp is not None and not isinstance(entry.aval, Tmp):
                    self.emit("drop", None, (entry.temp,))
                    frame.env[value] = Entry(entry.aval)

    def physical(self) -> list[Value]:
        """The physical operand stack, bottom first."""
        frames = self.state.frames
        entries = [entry for frame in frames for entry in frame.env.values()]
        return [e.temp for e in entries + self.state.hand if e.temp is not None]

    def reparam(self, state: State, block: Block) -> None:
        """Make `state` refer to fresh parameters of `block` instead of the values passed to it."""

        def renew(entry: Entry) -> Entry:
            if entry.temp is None:
                return entry
            value = Value()
            block.params.append(value)
            aval = entry.aval
            return Entry(Tmp(value, aval.type) if isinstance(aval, Tmp) else aval, value)

        for frame in state.frames:
            for value, entry in frame.env.items():
                frame.env[value] = renew(entry)
        state.hand[:] = [renew(entry) for entry in state.hand]

    def cut(self) -> None:
        """Go on in a new residual block."""
        self.settle_all()
        self.strip()
        block = Block(0)
        args = self.physical()
        self.finish("jump", None, (), [Edge(block, tuple(args))])
        self.reparam(self.state, block)
        self.start(block)

    def start(self, block: Block) -> None:
        """Fill `block` from now on."""
        self.blocks.append(block)
        self.cur = block
        self.protected = _UNSET

    def finish(self, name: str, arg: Any, operands: Any, edges: list[Edge], results: int = 0) -> Op:
        """End the residual block."""
        pos, code = self.site()
        op = Op(name, arg, operands, [Value() for _ in range(results)], pos, code)
        self.cur.term = op
        self.cur.edges = edges
        self.emitted += 1
        return op


def landed(entry: Entry, block: Block) -> Entry:
    """An entry as the handler block `block` sees it: temporaries are its parameters."""
    if not isinstance(entry.aval, Tmp):
        return Entry(entry.aval)
    value = Value()
    block.params.append(value)
    return Entry(Tmp(value, entry.aval.type), value)


def current_op(frame: Frame) -> Op:
    """The operation that a frame is evaluating."""
    ops = frame.block.ops
    index = frame.index - 1
    op = ops[index] if 0 <= index < len(ops) else frame.block.term
    assert op is not None
    return op


def known_type(aval: AVal) -> type | None:
    """The exact type of what `aval` stands for, if known."""
    if isinstance(aval, Const):
        return type(aval.obj)
    if isinstance(aval, (Dyn, Tmp)):
        return aval.type
    return None
