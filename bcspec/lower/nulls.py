"""Which values are NULL, and whose callable they stand for.

The IR has the NULL of a callable first; versions that push it after the callable turn the pair
around, and for that have to know.
"""

from __future__ import annotations

from ..ir import Function, Value


def null_values(fn: Function) -> frozenset[Value]:
    """Values that are NULL on every path.

    Args:
        fn: the function.

    Returns:
        Results of `null`, and parameters that nothing else is passed for (greatest fixed point).
    """
    made = {op.results[0] for block in fn.blocks for op in block.ops if op.name == "null"}
    ways: dict[Value, list[Value]] = {}
    for block in fn.blocks if made else ():
        passed = [(edge.target.params, edge.args) for edge in block.edges]
        if block.handler is not None:
            passed.append((block.handler.target.params, block.handler.args))
        for params, args in passed:
            for param, value in zip(params, args):
                ways.setdefault(param, []).append(value)
    nulls = made | set(ways)
    changed = True
    while changed:
        wrong = {param for param in nulls - made if not nulls.issuperset(ways[param])}
        nulls -= wrong
        changed = bool(wrong)
    return frozenset(nulls)


def callables_of(fn: Function, nulls: frozenset[Value]) -> dict[Value, Value]:
    """For each NULL that a call takes in the block where it was made, the callable."""
    return {
        op.operands[0]: op.operands[1]
        for block in fn.blocks
        for op in block.ops
        if op.name in ("call", "call_ex") and op.operands[0] in nulls
    }
