"""Tidying residual IR: dead loads, moves through slots, empty handlers, straight-line blocks, layout."""

from __future__ import annotations

from ..ir import Block, Function, Handler, Op, Value


def clean(fn: Function, *, specialised: bool = True) -> None:
    """Run every pass, in an order in which each profits from those before it.

    Args:
        fn: residual IR, changed in place.
        specialised: remove NOPs, and handlers that only re-raise (tracing, and ``f_lineno`` of a
            frame that an exception has left, tell the difference).
    """
    for block in fn.blocks:
        cancel_drops(block)
        forward_moves(block)
    if specialised:
        drop_pass_through_handlers(fn)
        for block in fn.blocks:
            block.ops = [op for op in block.ops if op.name != "nop"]
    thread_jumps(fn)
    merge_chains(fn)
    for block in fn.blocks:
        cancel_drops(block)
        forward_moves(block)
    lay_out(fn)


def cancel_drops(block: Block) -> None:
    """``v = load x; ...; drop v`` is nothing at all."""
    changed = True
    while changed:
        changed = False
        made = {op.results[0]: op for op in block.ops if op.spec.pure}
        looked_at = {value for op in block.all_ops() for value in op.operands[: op.keeps]}
        dead: set[Op] = set()
        for op in block.ops:
            if op.name == "drop" and op.operands[0] in made and op.operands[0] not in looked_at:
                dead |= {op, made[op.operands[0]]}
        if dead:
            block.ops = [op for op in block.ops if op not in dead]
            changed = True


def forward_moves(block: Block) -> None:
    """``store s (v); ...; w = load s; delete s`` keeps `v` on the stack instead.

    Only where nothing in between mentions `s`, or needs it in a handler.
    """
    index = 0
    while index < len(block.ops):
        op = block.ops[index]
        if op.name == "store":
            move = find_move(block, index)
            if move is not None:
                (old,), (new,) = op.operands, block.ops[move].results
                del block.ops[move : move + 2]
                del block.ops[index]
                rename(block, new, old)
                continue
        index += 1


#: Operations on a local variable.
LOCAL_OPS = frozenset("load load_check load_clear store delete delete_check clear".split())


def find_move(block: Block, start: int) -> int | None:
    """Index of the load in ``load s; delete s`` that is the next mention of the slot stored at `start`."""
    slot = block.ops[start].arg
    for index in range(start + 1, len(block.ops)):
        op = block.ops[index]
        if op.name in LOCAL_OPS and op.arg == slot:
            following = block.ops[index + 1] if index + 1 < len(block.ops) else None
            moved = op.name == "load" and following is not None and following.name == "delete"
            return index if moved and following.arg == slot else None  # type: ignore[union-attr]
        if op.raises and block.handler is not None:
            return None
    return None


def rename(block: Block, old: Value, new: Value) -> None:
    """Use `new` wherever the block uses `old`."""
    for op in block.all_ops():
        if old in op.operands:
            op.operands = tuple(new if value is old else value for value in op.operands)
    for edge in block.edges:
        if old in edge.args:
            edge.args = tuple(new if value is old else value for value in edge.args)


# -- handlers ------------------------------------------------------------------------


def drop_pass_through_handlers(fn: Function) -> None:
    """A handler that does nothing but raise again goes, and its region with it."""
    for block in fn.blocks:
        seen: set[Block] = set()
        while block.handler is not None and block.handler.target not in seen:
            seen.add(block.handler.target)
            passed, outer = pass_through(block.handler)
            if not passed:
                break
            block.handler = outer


def pass_through(handler: Handler) -> tuple[bool, Handler | None]:
    """Whether a handler only re-raises, and where the exception goes then.

    What it pushes as "the exception being handled" it has to pop again on the way.  Slots that it
    lets go of do not matter when the exception leaves the function: they go with the frame.
    """
    names: dict[Value, Value | None] = dict(zip(handler.target.params, handler.args, strict=False))
    block = handler.target
    exception = block.params[-1]
    pushed = 0
    released = False
    for _ in range(16):
        for op in block.ops:
            if op.name == "push_exc_info" and op.operands[0] is exception:
                exception = op.results[1]
                pushed += 1
            elif op.name == "pop_except" and pushed:
                pushed -= 1
            elif op.name in ("delete", "clear"):
                released = True
            elif op.name not in ("copy", "nop"):
                return False, None
        term = block.term
        assert term is not None
        if term.name == "jump":
            args, target = block.edges[0].args, block.edges[0].target
        elif term.name != "reraise" or term.operands[-1] is not exception:
            return False, None
        elif block.handler is None:
            return pushed == 0, None
        else:
            inner = block.handler
            kept = tuple(names.get(value) for value in inner.args)
            if pushed == 0 and None not in kept and not released:
                return True, Handler(inner.target, kept, inner.lasti)  # type: ignore[arg-type]
            extra = (Value(),) if inner.lasti else ()
            args, target = (*inner.args, *extra, exception), inner.target
        if exception not in args:
            return False, None
        position = args.index(exception)
        names = dict(zip(target.params, map(names.get, args), strict=True))
        exception, block = target.params[position], target
    return False, None


# -- blocks --------------------------------------------------------------------------


def thread_jumps(fn: Function) -> None:
    """Edges into empty blocks go straight to where those jump."""
    for block in fn.blocks:
        for edge in block.edges:
            for _ in range(len(fn.blocks)):
                target = edge.target
                empty = not target.ops and target.term is not None and target.term.name == "jump"
                if (
                    not empty
                    or target.edges[0].target is target
                    or len(target.params) != len(edge.args)
                ):
                    break
                mapping = dict(zip(target.params, edge.args, strict=True))
                onward = target.edges[0]
                if len(block.edges) > 1 and onward.args != tuple(target.params):
                    break  # both ways out of a branch leave the stack in the same order
                edge.args = tuple(mapping[value] for value in onward.args)
                edge.target = onward.target
                if block.term is not None and block.term.name == "jump":
                    block.term.arg = block.term.arg or target.term.arg  # type: ignore[union-attr]
        if block.handler is not None:
            thread_handler(block.handler)


def thread_handler(handler: Handler) -> None:
    """The same for the target of a handler, as long as the parameters keep their order."""
    for _ in range(100):
        target = handler.target
        assert target.term is not None
        if target.ops or target.term.name != "jump" or target.edges[0].target is target:
            return
        if target.edges[0].args != tuple(target.params):
            return
        handler.target = target.edges[0].target


def merge_chains(fn: Function) -> None:
    """Join a block with its only successor when that has no other way in."""
    preds = fn.predecessors()
    handlers = {block.handler.target for block in fn.blocks if block.handler is not None}
    reached = reachable(fn)
    for block in fn.blocks:
        while block in reached and block.term is not None and block.term.name == "jump":
            (edge,) = block.edges
            target = edge.target
            ways = [pred for pred in preds[target] if pred in reached]
            if target is block or len(ways) != 1 or target in handlers or target is fn.blocks[0]:
                break
            if not mergeable(block, target, edge.args):
                break
            absorb(block, target, edge.args)
            for successor in target.edges:
                preds[successor.target] = [
                    block if pred is target else pred for pred in preds[successor.target]
                ]
            reached.discard(target)
            target.term, target.edges, target.ops = None, [], []
    fn.blocks = [block for block in fn.blocks if block in reached]


#: Operations that change which exception is being handled.
EXCEPTION_STATE = {"push_exc_info", "pop_except"}


def mergeable(block: Block, target: Block, args: tuple[Value, ...]) -> bool:
    """Whether both blocks have the same handler, seen with the same values."""
    if block.handler is None or target.handler is None:
        quiet = block if block.handler is None else target
        if block.handler is None and target.handler is None:
            return True
        if any(op.raises or op.name in EXCEPTION_STATE for op in quiet.ops):
            return False
        if quiet is block:
            return prefix_is_param(block, target, args)
        # A jump back to the handler's region was protected by `block` itself if it had to be.
        return target.term is not None and (target.term.name == "jump" or not target.term.raises)
    one, two = block.handler, target.handler
    names = dict(zip(target.params, args, strict=True))
    return (
        one.target is two.target
        and one.lasti == two.lasti
        and one.args == tuple(names[value] for value in two.args)
    )


def prefix_is_param(block: Block, target: Block, args: tuple[Value, ...]) -> bool:
    """Whether what the handler of `target` keeps is on the stack from the start of `block`."""
    assert target.handler is not None
    names = dict(zip(target.params, args, strict=True))
    kept = tuple(names[value] for value in target.handler.args)
    return kept == tuple(block.params[: len(kept)])


def absorb(block: Block, target: Block, args: tuple[Value, ...]) -> None:
    """Append `target` to `block`."""
    names = dict(zip(target.params, args, strict=True))
    for op in target.all_ops():
        op.operands = tuple(names.get(value, value) for value in op.operands)
    for edge in target.edges:
        edge.args = tuple(names.get(value, value) for value in edge.args)
    if target.handler is not None and block.handler is None:
        handler = target.handler
        block.handler = Handler(
            handler.target, tuple(names[value] for value in handler.args), handler.lasti
        )
    block.ops += target.ops
    block.term, block.edges = target.term, target.edges


def reachable(fn: Function) -> set[Block]:
    """Blocks that can be reached from the entry, handlers included."""
    found = {fn.blocks[0]}
    work = [fn.blocks[0]]
    while work:
        block = work.pop()
        targets = [edge.target for edge in block.edges]
        if block.handler is not None:
            targets.append(block.handler.target)
        for target in targets:
            if target not in found:
                found.add(target)
                work.append(target)
    return found


def lay_out(fn: Function) -> None:
    """Reverse postorder in which falling through is common; handlers come last."""
    finished: list[Block] = []
    seen = {fn.blocks[0]}
    work = [(fn.blocks[0], ways_out(fn.blocks[0]))]
    while work:
        block, targets = work[-1]
        if not targets:
            finished.append(block)
            work.pop()
            continue
        target = targets.pop(0)
        if target not in seen:
            seen.add(target)
            work.append((target, ways_out(target)))
    fn.blocks = finished[::-1]
    for number, block in enumerate(fn.blocks):
        block.id = number


def ways_out(block: Block) -> list[Block]:
    """Successors, the one that should come right after `block` last."""
    targets = [edge.target for edge in block.edges]
    if block.term is not None and block.term.name in ("for_iter", "send"):
        targets.reverse()  # the first edge is the body of the loop
    return [block.handler.target, *targets] if block.handler is not None else targets
