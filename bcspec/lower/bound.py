"""Which locals are bound for certain where a block begins.

Some versions read a local without looking whether it is bound; where that is not certain, lowering
takes the instruction that looks.  Forward analysis, as compilers do it for definite assignment: a
local is bound where it is on every way in, exceptions included.
"""

from __future__ import annotations

from ..ir import Block, Function, Op

#: After these the local is bound, or is not.
_BINDS = frozenset({"store", "load_check"})
_UNBINDS = frozenset({"delete", "delete_check", "clear", "load_clear"})


def step(bound: frozenset[str], op: Op, unsure: frozenset[Op]) -> frozenset[str]:
    """What is bound after `op`, given what is before it.

    Args:
        bound: locals that are bound before it.
        op: the operation.
        unsure: operations `store` that may store NULL.
    """
    if op.name in _BINDS and op not in unsure:
        return bound if op.arg in bound else bound | {op.arg}
    if op.name in _UNBINDS or op in unsure:
        return bound - {op.arg}
    return bound


def unsure_stores(fn: Function) -> frozenset[Op]:
    """Operations that store what a comprehension has set aside, which may be NULL."""
    if not any(op.name in ("load_clear", "null") for block in fn.blocks for op in block.ops):
        return frozenset()
    saved = {
        value
        for block in fn.blocks
        for op in block.ops
        if op.name in ("load_clear", "null")
        for value in op.results
    }
    changed = True
    while changed:
        changed = False
        for block in fn.blocks:
            ways = [(edge.target.params, edge.args) for edge in block.edges]
            if block.handler is not None:
                ways.append((block.handler.target.params, block.handler.args))
            for params, args in ways:
                new = {param for param, value in zip(params, args) if value in saved} - saved
                changed = changed or bool(new)
                saved |= new
    return frozenset(
        op
        for block in fn.blocks
        for op in block.ops
        if op.name == "store" and op.operands[0] in saved
    )


def bound_at_start(fn: Function, unsure: frozenset[Op]) -> dict[Block, frozenset[str]]:
    """For each block that is reached, the locals that are certainly bound at its start.

    Args:
        fn: the function.
        unsure: what `unsure_stores` gives.
    """
    state = {fn.blocks[0]: frozenset(fn.arg_names) - frozenset(fn.cellvars)}
    work = [fn.blocks[0]]
    while work:
        block = work.pop()
        bound = state[block]
        at_handler: frozenset[str] | None = None
        for op in block.all_ops():
            if op.raises:
                at_handler = bound if at_handler is None else at_handler & bound
            bound = step(bound, op, unsure)
        ways = [(edge.target, bound) for edge in block.edges]
        if block.handler is not None and at_handler is not None:
            ways.append((block.handler.target, at_handler))
        for target, known in ways:
            old = state.get(target)
            new = known if old is None else old & known
            if new != old:
                state[target] = new
                work.append(target)
    return state
