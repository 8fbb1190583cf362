"""The driver: follow paths, meet at join points, fork at dynamic branches.

An online, polyvariant partial evaluator (Jones, Gomard, Sestoft, *Partial Evaluation and Automatic
Program Generation*, 1993, chapters 4 and 7; the treatment of contexts follows weval).  A block of
the source is specialised for the abstract state in which it is entered; `variants` remembers, for
each control point, the states met and the residual block made for each.  A point that is met in
too many states is widened where the states differ, which keeps everything finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..ir import Block, Edge, Op
from ..knowledge import EntryGuard, Refinement
from . import facts, models
from .domain import (
    GENERATOR_KINDS,
    PARTS,
    UNBOUND,
    AVal,
    Const,
    Dyn,
    Entry,
    Frame,
    Passed,
    Ref,
    State,
    Tmp,
    TypeFact,
    is_atomic,
)
from .emission import Restart, current_op
from .machine import Machine
from .request import Assumption, Note, Request
from .source import LOOKS_AT_FRAMES, source_of
from .unfold import Callee
from .widening import at_path, control_point, describe, differences, every_place, widen

#: The file of the models, which no user has written.
MODELS = models.all_.__code__.co_filename


@dataclass(slots=True)
class Arrival:
    """A path that waits at a join point: its state, its unfinished block, the kind of its jump."""

    state: State
    block: Block
    arg: Any = None


class Evaluator(Machine):
    """Evaluates one request once; `bcspec.evaluate.evaluate` restarts it on demand."""

    def __init__(self, request: Request, rules: dict[str, Any]) -> None:
        super().__init__(request)
        self.rules = rules
        self.variants: dict[Any, list[tuple[dict[Any, Any], int, Block]]] = {}
        self.assumptions: dict[Any, Assumption] = {}
        self.notes: list[Note] = []
        self.waiting: dict[Any, list[Arrival]] = {}
        self.priority: dict[Any, Any] = {}
        self.guards: dict[Any, EntryGuard] = {}
        self.entry_states: dict[Block, State] = {}
        self.tested: TypeFact | Passed | None = None
        self.declared_types: set[type] = set()
        #: Calls that stay, of known functions with positional arguments, and what is known of these.
        self.calls: list[tuple[Any, list[type | Refinement | None]]] = []
        self.widened_now = False
        self.following = False

    # -- records ---------------------------------------------------------------------

    def note(self, kind: str, text: str) -> None:
        """Record a decision at the present operation; one inside a model, at what the model stands for."""
        frames = self.state.frames
        frame = next(
            (f for f in reversed(frames) if f.source.code.co_filename != MODELS), frames[0]
        )
        op = current_op(frame)
        self.notes.append(Note(kind, text, frame.source.code.co_filename, op.line))

    def note_folded(self, what: str, aval: AVal | None) -> None:
        """Record that an operation has become a constant."""
        if isinstance(aval, Const):
            obj = aval.obj
            long = not is_atomic(obj) or (type(obj) is int and obj.bit_length() > 200)
            self.note(
                "folded", f"{what} is {f'a {type(obj).__name__}' if long else repr(obj)[:40]}"
            )

    def assume(self, kind: str, subject: Any, name: str, value: Any, reason: str) -> None:
        """Record what justifies a folded value."""
        self.assumptions.setdefault(
            (id(subject), name), Assumption(kind, subject, name, value, reason)
        )

    def constant_cell(self, frame: Frame, name: str, cell: Any) -> tuple[str, str] | None:
        """Why the content of a closure cell never changes, or None."""
        return facts.constant_cell(self.request, frame, name, cell)

    def global_constant(
        self, namespace: dict[str, Any], name: str, builtins_too: bool = True
    ) -> Const | None:
        """The value of a global name if it may be assumed to stay."""
        found = facts.global_constant(self.request, namespace, name, builtins_too)
        if found is None:
            return None
        const, kind, owner, reason = found
        self.assume(kind, owner, name, const.obj, reason)
        return const

    def read(self, obj: Any, name: str) -> Const | None:
        """The value of an attribute that an entry guard or a declared reader vouches for."""
        knowledge = self.request.knowledge
        for guard in knowledge.entry_guards:
            if guard.owner is obj and guard.attribute == name and not guard.call:
                self.guards[id(obj), name] = guard
                return Const(guard.expected)
        for reader in knowledge.readers:
            reading = reader(obj, name)
            if reading is not None:
                self.assume("declared", obj, name, reading.value, reading.reason)
                if reading.guard is not None:
                    self.guards[id(obj), name] = reading.guard
                return Const(reading.value)
        return None

    def rely_on(self, guards: Iterable[EntryGuard]) -> None:
        """Have flags read at the start of each call."""
        for guard in guards:
            self.guards[id(guard.owner), guard.attribute] = guard

    def worth_unfolding(self, callee: Callee, args: list[Entry], kwargs: dict[str, Entry]) -> bool:
        """A long function about which nothing is known but its name stays a call."""
        if callee.cells or callee.lead or source_of(callee.code).size <= 120:
            return True
        avals: list[AVal] = [entry.aval for entry in (*args, *kwargs.values())]
        if any(isinstance(aval, (Const, Ref)) for aval in avals):
            return True
        return any(frozen(callee.globals) for frozen in self.request.knowledge.frozen_namespaces)

    # -- the loop --------------------------------------------------------------------

    def run(self, frame: Frame) -> None:
        """Evaluate from the start of `frame`.

        Paths are followed up to the next join point and wait there.  Of the points where paths
        wait, the one that comes first in the source goes on, so that (loops apart) all paths into
        a point have arrived before what comes after it is evaluated.
        """
        self.state.frames.append(frame)
        if not self.blocks:
            self.start(Block(0))
        self.arrive()
        self.follow_path()
        while self.pending or self.waiting:
            if self.pending:
                self.state, block = self.pending.pop()
                self.start(block)
                self.collect()
                self.arrive()
                self.follow_path()
            else:
                point = min(self.waiting, key=lambda p: self.priority[p])
                self.meet(point, self.waiting.pop(point))

    def follow_path(self) -> None:
        """Evaluate operations until the path ends."""
        limit = self.request.limits.residual
        while self.following:
            frame = self.state.top
            ops = frame.block.ops
            op = ops[frame.index] if frame.index < len(ops) else frame.block.term
            assert op is not None
            frame.index += 1
            if op in frame.source.observers and self.request.assume:
                raise self.generic_from_here(LOOKS_AT_FRAMES)
            self.rules[op.name](self, op)
            if self.emitted > limit:
                raise Restart("too_big", None, f"more than {limit} residual operations")

    # -- control ---------------------------------------------------------------------

    def end_path(self) -> None:
        self.following = False

    def enter_edge(self, edge: Edge) -> None:
        """Move the top frame along an edge of its source block."""
        frame = self.state.top
        env = frame.env
        entries = [env[value] for value in edge.args]
        frame.env = dict(zip(edge.target.params, entries, strict=True))
        frame.block, frame.index = edge.target, 0

    def jump(self, edge: Edge, arg: Any = None) -> None:
        """Follow an edge that is certainly taken; `arg` is that of a residual jump, if there is one."""
        self.enter_edge(edge)
        self.arrive(arg)

    def arrive(self, arg: Any = None) -> None:
        """The top frame is at the start of a block: join what was evaluated before, or go on."""
        self.following = True
        frame = self.state.top
        if frame.block in frame.source.joins or frame.block in frame.source.handlers:
            self.trim(frame)
            self.join(arg)

    def trim(self, frame: Frame) -> None:
        """Forget constants in variables that are not read any more: they keep variants apart."""
        if self.observed(frame):
            return
        live = frame.source.live[frame.block]
        for name, aval in frame.locals.items():
            if name not in live and isinstance(aval, Const) and is_atomic(aval.obj):
                frame.locals[name] = UNBOUND

    def observed(self, frame: Frame) -> bool:
        """Whether something may look at the locals of `frame` by name."""
        observing = frame.source.observers and not self.request.assume
        return bool(observing) and frame is self.state.frames[0]

    def join(self, arg: Any = None) -> None:
        """End the path at a point where other paths may arrive."""
        self.settle_all()
        self.strip()
        state = self.state
        point = control_point(state)
        if point not in self.priority:
            order = [(frame.source.order[frame.block], frame.index) for frame in state.frames]
            # A point inside an unfolded call comes before what follows the call.
            self.priority[point] = (*order, (1 << 30, 0))
        self.waiting.setdefault(point, []).append(Arrival(state, self.cur, arg))
        self.end_path()

    def meet(self, point: Any, arrivals: list[Arrival]) -> None:
        """Go on at a point from which some paths have arrived: one version for each state."""
        variants = self.variants.setdefault(point, [])
        wide = self.request.demands.widened.get(point)
        if wide:
            self.widen_all(arrivals, wide)
        descriptions = [describe(arrival.state) for arrival in arrivals]
        worthless = not_both_constant if is_handler_start(arrivals[0].state) else both_unknown
        descriptions = self.give_up_precision(point, variants, arrivals, descriptions, worthless)
        if self.exhausted(variants, arrivals, descriptions):
            descriptions = self.give_up_precision(point, variants, arrivals, descriptions)
        begun: list[tuple[State, Block]] = []
        for arrival, description in zip(arrivals, descriptions, strict=True):
            self.state, self.cur = arrival.state, arrival.block
            state = arrival.state
            known = next((b for d, _, b in variants if d == description), None)
            if known is not None:
                self.settle_slots(known)
                self.finish("jump", arrival.arg, (), [Edge(known, tuple(self.physical()))])
                continue
            fresh = Block(0)
            self.finish("jump", arrival.arg, (), [Edge(fresh, tuple(self.physical()))])
            self.reparam(state, fresh)
            variants.append((description, state.forks, fresh))
            self.entry_states[fresh] = state.copy()
            begun.append((state, fresh))
        for self.state, block in begun:
            self.start(block)
            self.following = True
            self.follow_path()

    def widen_all(self, arrivals: list[Arrival], paths: dict[Any, bool]) -> None:
        """Make the places `paths` dynamic in every arriving state, at the end of its block."""
        for arrival in arrivals:
            self.state, self.cur = arrival.state, arrival.block
            widen(self, paths)

    def exhausted(self, variants: Any, arrivals: Any, descriptions: list[Any]) -> bool:
        """Whether the budget of variants of a point is used up.

        Unrolling a loop whose control is static passes no dynamic branch that was not passed
        before; a dynamic loop passes one in every round.  Paths that arrive together come from the
        two sides of a dynamic branch.
        """
        known = [description for description, _, _ in variants]
        for description in descriptions:
            if description not in known:
                known.append(description)
        if len(known) <= 1:
            return False
        state = arrivals[0].state
        limits = self.request.limits
        if is_handler_start(state):
            return len(known) > limits.handler_variants
        if len(known) > limits.variants and any(d != descriptions[0] for d in descriptions):
            return True
        forks = {forks for _, forks, _ in variants} | {a.state.forks for a in arrivals}
        return len(forks) > limits.variants or len(known) > limits.unrolled

    def give_up_precision(
        self,
        point: Any,
        variants: Any,
        arrivals: list[Arrival],
        descriptions: list[Any],
        only: Callable[[Any, Any], bool] = lambda one, two: True,
    ) -> list[Any]:
        """Widen the places where the states that arrive at a point differ (and `only` agrees)."""
        demands = self.request.demands.widened.setdefault(point, {})
        before = dict(demands)
        for _ in range(WIDENING_ROUNDS):
            known = [description for description, _, _ in variants]
            if not add_differences(demands, known, descriptions, only):
                break
            self.widen_all(arrivals, demands)
            descriptions = [describe(arrival.state) for arrival in arrivals]
        self.widened_now |= bool(variants) and demands != before
        return descriptions

    def settle_slots(self, block: Block) -> None:
        """Before joining `block`: move what it expects in other slots."""
        target = self.entry_states[block]
        moves: dict[str, str] = {}
        theirs = [aval for _, aval in _slots(target)]
        mine = [aval for _, aval in _slots(self.state)]
        for have, want in zip(mine, theirs, strict=True):
            moves[want.slot] = have.slot
            if have.maybe and have.slot != want.slot:
                raise self.generic_from_here("a variable that may be unbound would have to move")
        pending = [(new, old) for new, old in moves.items() if new != old]
        values = [self.emit("load", old, (), 1)[0] for _, old in pending]
        kept = set(moves)
        for (slot, _), value in reversed(list(zip(pending, values, strict=True))):
            self.store(slot, value)
        for slot in [slot for slot in self.state.bound if slot not in kept]:
            self.release(slot)

    # -- branches --------------------------------------------------------------------

    def fork(self, name: str, arg: Any, results: int = 0) -> None:
        """End the residual block with a dynamic terminator on the whole hand.

        The operands of the terminator are in the hand (and, for `for_iter` and `send`, the kept
        iterator is in the environment); both edges of the source block are followed later.
        """
        frame = self.state.top
        source_op = frame.block.term
        assert source_op is not None
        kept = list(source_op.operands[: source_op.keeps])
        self.settle_all()
        self.strip()
        self.protect()
        self.state.ran(name)
        operands = self.kept_temps(kept) + self.hand_temps()
        self.state.hand.clear()
        term = self.finish(name, arg, operands, [], results)
        self.state.forks += 1
        for position, edge in enumerate(frame.block.edges):
            self.follow_later(source_op, term, edge, position)
        self.cur_forked()

    def follow_later(self, source_op: Op, term: Op, edge: Edge, position: int) -> None:
        """Queue one side of a fork."""
        base = self.state
        state = base.copy()
        frame = state.top
        for value, result in zip(source_op.results, term.results, strict=True):
            frame.env[value] = Entry(Tmp(result), result)
        entries = {value: frame.env[value] for value in edge.args}
        frame.env = entries
        args = [
            entry.temp for f in state.frames for entry in f.env.values() if entry.temp is not None
        ]
        frame.env = dict(zip(edge.target.params, entries.values(), strict=True))
        frame.block, frame.index = edge.target, 0
        block = Block(0)
        self.cur.edges.append(Edge(block, tuple(args)))
        self.refine(state, source_op, position)
        self.reparam(state, block)
        self.pending.append((state, block))

    def refine(self, state: State, op: Op, position: int) -> None:
        """What taking this side of the branch tells."""
        fact = self.tested
        if fact is None or op.name != "branch" or fact.holds != (position == 0):
            return
        if isinstance(fact, Passed):
            state.holding = frozenset((PARTS, *self.request.knowledge.ambient))
            return
        cls = fact.cls
        assert cls is not None
        new = Const(None) if cls is type(None) else Dyn(fact.slot, cls)
        state.rewrite(lambda a: new if isinstance(a, Dyn) and a.slot == fact.slot else a)

    def cur_forked(self) -> None:
        self.tested = None
        self.end_path()

    # -- frames ----------------------------------------------------------------------

    def push_frame(self, frame: Frame) -> None:
        self.state.frames.append(frame)
        self.arrive()

    def pop_frame(self, entry: Entry) -> tuple[Frame, Entry]:
        """Leave the top frame with a result; what only it held dies."""
        frame = self.state.frames.pop()
        aside = len(self.state.held_aside)
        self.state.held_aside.extend(frame.held)  # what the continuation is about to bind
        self.state.hand.append(entry)
        for leftover in reversed(list(frame.env.values())):
            self.discard(leftover)
        self.collect()
        del self.state.held_aside[aside:]
        return frame, self.state.hand.pop()

    def bind_result(self, entry: Entry) -> None:
        """Give the single result of the operation that the top frame is at."""
        op: Op = current_op(self.state.top)
        self.give(op, entry)


#: Widening a place may uncover another difference (two variables that shared a value).
WIDENING_ROUNDS = 20


def is_handler_start(state: State) -> bool:
    """Whether control is at the start of an exception handler of the source."""
    return state.top.block in state.top.source.handlers and state.top.index == 0


def not_both_constant(one: Any, two: Any) -> bool:
    """Whether two descriptions of a place are anything but two constants.

    The start of a handler is reached from every operation it covers: that a variable is bound from
    some of them on is no reason for another version of the handler, a different constant is, and
    so is how far a generator has come, which has no common form.
    """
    both = isinstance(one, tuple) and isinstance(two, tuple) and one[0] == two[0]
    if both and one[0] == "o":
        return not {one[1], two[1]} <= GENERATOR_KINDS
    return not (both and one[0] == "c")


def both_unknown(one: Any, two: Any) -> bool:
    """Whether two descriptions of a place tell nothing but whether and where a value is."""
    return all(d is UNBOUND or (isinstance(d, tuple) and d[0] in ("d", "t")) for d in (one, two))


def add_differences(
    demands: dict[Any, bool],
    known: list[Any],
    descriptions: list[Any],
    only: Callable[[Any, Any], bool],
) -> bool:
    """Add to `demands` the places where descriptions differ; False if there are none to add."""
    base = descriptions[0]
    grown = False
    for other in [*known, *descriptions[1:]]:
        for path in differences(base, other):
            if not only(at_path(base, path), at_path(other, path)):
                continue
            maybe = any(may_be_unbound(at_path(d, path)) for d in (base, other))
            if path not in demands or (maybe and not demands[path]):
                demands[path] = maybe or demands.get(path, False)
                grown = True
    return grown


def may_be_unbound(description: Any) -> bool:
    return description is UNBOUND or (
        isinstance(description, tuple) and description[0] == "d" and description[3]
    )


def _slots(state: State) -> list[tuple[Any, Dyn]]:
    return [(path, aval) for path, aval in every_place(state) if isinstance(aval, Dyn)]
