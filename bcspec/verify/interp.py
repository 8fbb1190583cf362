"""Abstract interpretation of the operand stack over finished bytecode.

A state is what holds just before an instruction:

* the kinds of the stack slots (`kinds`), so also the exact depth;
* how many exceptions are being handled (PUSH_EXC_INFO minus POP_EXCEPT);
* a bit set: bit 0 once the frame belongs to a generator, bit `slot + 1` once a plain local is
  bound (where the version reads locals unchecked) or a cell slot is filled;
* the kinds of those slots of which more than "an object" is known, cells among them.

States are kept at joins only (jump targets and handlers) and a worklist runs straight-line code
between them until nothing changes.  Depths must agree where paths meet; the rest is joined.
Kinds only ever go up a lattice of height three and bits only go away, so this ends.

An exception-table entry is an edge from every covered instruction that can raise, out of the state
before it: what lies below the entry's depth is not touched by an instruction that fails.
"""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple, NoReturn

from . import kinds as k
from .decode import Handler, Wordcode, takes_iterator
from .model import Effect, Flow
from .prepare import PLAIN, Prepared

_VARARGS, _VARKEYWORDS = 0x4, 0x8  # flags of a code object

Env = dict[int, int]

#: Arguments that only the compiler passes, to the code around a function with type parameters.
_MADE_BY_COMPILER = {".defaults": k.TUPLE, ".kwdefaults": k.DICT}


class State(NamedTuple):
    """What holds before an instruction; see the module's text."""

    stack: tuple[int, ...]
    handled: int
    bits: int
    env: Env


class Machine:
    """Verifies one code object; actions of the version table read and change its state."""

    def __init__(self, words: Wordcode) -> None:
        self.words = words
        self.code: CodeType = words.code
        self.prepared: Prepared = words.prepared
        self.states: list[State | None] = [None] * len(words.ops)
        self.work: list[int] = []
        self.handled = 0
        self.bits = 0
        self.env: Env = {}
        self.index = 0

    def fail(self, reason: str) -> NoReturn:
        """Refuse the current instruction."""
        self.words.fail(self.index, reason)

    # -- driving ---------------------------------------------------------------------

    def run(self) -> None:
        """Interpret until nothing changes.

        Raises:
            VerificationError: an instruction meets a state that the interpreter cannot take.
        """
        self.bits, self.env = _entry(self.words)
        self._walk(0, [])
        while self.work:
            start = self.work.pop()
            state = self.states[start]
            assert state is not None
            self.handled, self.bits, self.env = state.handled, state.bits, state.env
            self._walk(start, list(state.stack))

    def _walk(self, index: int, stack: list[int]) -> None:
        """Run straight-line code from `index`, up to the next join or the end of control."""
        words, prepared = self.words, self.prepared
        ops, args, effects, joins = words.ops, words.args, words.effects, words.joins
        handlers, targets = words.handlers, words.targets
        raises, flows, actions = prepared.raises, prepared.flow, prepared.action
        room, count = self.code.co_stacksize, len(ops)
        covered: tuple[Handler, list[int], int, int, Env] | None = None
        if index == 0 and joins[0]:
            self.flow(0, stack)
            return
        while True:
            self.index = index
            op, effect = ops[index], effects[index]
            pops = effect.pops
            handler = handlers[index]
            if handler is not None:
                if len(stack) - (pops if raises[op] else 0) < handler.depth:
                    self.fail(f"stack depth {len(stack)} is below its handler's {handler.depth}")
                if raises[op]:
                    kept = stack[: handler.depth]
                    seen = (handler, kept, self.handled, self.bits, self.env)
                    if seen != covered:
                        covered = seen
                        self._raise_to(handler, kept)
            if effect.reads is not None:
                self._check_reads(effect.reads, stack)
            elif pops:
                if len(stack) < pops:
                    self.fail(f"pops {pops} of {len(stack)} stack slots")
                for kind in stack[-pops:]:
                    if not kind & k.OBJECT:
                        self.fail(f"uses what is {k.describe(kind)} as an object")
            flow = flows[op]
            if flow is Flow.BRANCH:
                self._branch(stack, effect, targets[index])
            action = actions[op]
            if action is not None:
                action(self, stack, index, args[index])
            else:
                if pops:
                    del stack[-pops:]
                if effect.pushes:
                    stack += effect.pushes
            if len(stack) > room:
                self.fail(f"stack depth {len(stack)} exceeds co_stacksize {room}")
            if flow is Flow.STOP:
                return
            if flow is Flow.JUMP:
                self.flow(targets[index], stack)
                return
            index += 1
            if index == count:
                self.fail("control falls off the end of the code")
            if joins[index]:
                self.flow(index, stack)
                return

    def _check_reads(self, reads: tuple[int, ...], stack: list[int]) -> None:
        count = len(reads)
        if count > len(stack):
            self.fail(f"looks at {count} of {len(stack)} stack slots")
        for position, (kind, accepted) in enumerate(zip(stack[len(stack) - count :], reads)):
            if not kind & accepted:
                self.fail(
                    f"stack slot {count - position} from the top is {k.describe(kind)}, "
                    f"not {k.describe(accepted)}"
                )

    # -- edges -----------------------------------------------------------------------

    def _branch(self, stack: list[int], effect: Effect, target: int) -> None:
        kept = stack[: len(stack) - effect.taken_pops]
        kept += effect.taken_pushes
        if len(kept) > self.code.co_stacksize:
            self.fail(f"stack depth {len(kept)} exceeds co_stacksize {self.code.co_stacksize}")
        self.flow(target, kept)

    def _raise_to(self, handler: Handler, kept: list[int]) -> None:
        kept = [*kept, k.LASTI, k.EXC] if handler.lasti else [*kept, k.EXC]
        if len(kept) > self.code.co_stacksize:
            self.fail(f"its handler's stack depth {len(kept)} exceeds co_stacksize")
        self.flow(handler.target, kept)

    def flow(self, target: int, stack: list[int]) -> None:
        """Let the current state reach `target`; queue it when something new is known there."""
        if any(type(kind) is k.Borrowed for kind in stack):
            self.fail("a borrowed reference outlives its straight-line code")
        old = self.states[target]
        new = State(tuple(stack), self.handled, self.bits, self.env)
        if old is not None:
            if old == new:
                return
            new = self._joined(old, new, target)
            if old == new:
                return
        self.states[target] = new
        self.work.append(target)

    def _joined(self, old: State, new: State, target: int) -> State:
        offset = 2 * self.words.starts[target]
        if len(old.stack) != len(new.stack):
            self.fail(
                f"reaches offset {offset} with stack depth {len(new.stack)}, "
                f"another path with {len(old.stack)}"
            )
        if old.handled != new.handled:
            self.fail(
                f"reaches offset {offset} handling {new.handled} exceptions, "
                f"another path {old.handled}"
            )
        return State(
            tuple(map(k.join, old.stack, new.stack)),
            old.handled,
            old.bits & new.bits,
            old.env if old.env == new.env else _join_env(old.env, new.env),
        )

    # -- locals, for actions ------------------------------------------------------------

    def bind(self, slot: int, kind: int) -> None:
        """A local gets a value of this kind."""
        if self.prepared.unchecked:
            self.bits |= 2 << slot
        if kind & k.VALUE:
            self.forget(slot)
        elif self.env.get(slot) != kind:
            self.env = {**self.env, slot: int(kind)}

    def forget(self, slot: int) -> None:
        """No more than "an object" is known of a local."""
        if slot in self.env:
            self.env = {other: kind for other, kind in self.env.items() if other != slot}

    def hold_cell(self, slot: int) -> None:
        """A slot gets its cell."""
        self.bits |= 2 << slot
        self.env = {**self.env, slot: k.CELL}

    def require_cell(self, slot: int) -> None:
        """A cell slot must hold its cell by now."""
        if self.env.get(slot) != k.CELL or not self.bits >> slot + 1 & 1:
            self.fail(f"cell slot {slot} is read before it holds a cell")


def _entry(words: Wordcode) -> tuple[int, Env]:
    """Bits and kinds of the arguments."""
    code = words.code
    given = code.co_argcount + code.co_kwonlyargcount
    env: Env = {}
    if code.co_flags & _VARARGS:
        env[given] = k.TUPLE
        given += 1
    if code.co_flags & _VARKEYWORDS:
        env[given] = k.DICT
        given += 1
    if takes_iterator(code):
        env[0] = k.ITER
    for slot, name in enumerate(code.co_varnames[:given]):
        if name in _MADE_BY_COMPILER:
            env[slot] = _MADE_BY_COMPILER[name]
    bits = 0
    if words.prepared.unchecked:
        for slot in range(given):
            bits |= (2 << slot) if words.slots[slot] == PLAIN else 0
    return bits, {slot: kind for slot, kind in env.items() if words.slots[slot] == PLAIN}


def _join_env(a: Env, b: Env) -> Env:
    joined = {slot: k.join(kind, b[slot]) for slot, kind in a.items() if slot in b}
    return {slot: kind for slot, kind in joined.items() if not kind & k.VALUE}
