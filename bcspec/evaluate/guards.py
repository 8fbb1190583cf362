"""Entry guards: cheap reads before the first effect; when one differs, the generic function runs."""

from __future__ import annotations

from typing import Any

from ..errors import SpecializationError
from ..ir import GENERATORS, Block, Edge, Function, Op, Value
from ..knowledge import EntryGuard
from .request import Request


class _Builder:
    """Appends operations to one block."""

    def __init__(self, block: Block, pos: Any, code: Any) -> None:
        self.block = block
        self.pos = pos
        self.code = code

    def op(
        self, name: str, arg: Any = None, operands: Any = (), results: int = 1
    ) -> tuple[Value, ...]:
        op = Op(name, arg, operands, [Value() for _ in range(results)], self.pos, self.code)
        self.block.ops.append(op)
        return op.results

    def end(self, name: str, arg: Any, operands: Any, targets: list[Block]) -> None:
        self.block.term = Op(name, arg, operands, (), self.pos, self.code)
        self.block.edges = [Edge(target) for target in targets]


def guard_entry(fn: Function, request: Request, guards: list[EntryGuard]) -> None:
    """Put the guards of a residual function before its entry block.

    Args:
        fn: residual IR, changed in place.
        request: names the generic function, the lengths declared for ``*args`` and the parameters
            that are always one object.
        guards: flags to read; the residual is right while each ``is`` what was expected.

    Raises:
        SpecializationError: the function is a generator or coroutine, which cannot call the generic one
            in its own place.
    """
    if not guards and not request.lengths and not request.identical:
        return
    if fn.flags & GENERATORS:
        raise SpecializationError(
            f"{fn.qualname} ({fn.filename}:{fn.firstlineno}) is a generator or coroutine: nothing can "
            "be read at the start of its call"
        )
    pos = fn.prologue.get("RESUME")
    generic = Block(0)
    call_generic(_Builder(generic, pos, fn.code), fn, request)
    entry = fn.blocks[0]
    tests: list[tuple[str, Any]] = [("object", item) for item in request.identical.items()]
    tests += [("flag", guard) for guard in guards]
    tests += [("length", item) for item in request.lengths.items()]
    chain: list[Block] = [Block(0) for _ in tests]
    for position, (kind, what) in enumerate(tests):
        block = chain[position]
        following = chain[position + 1] if position + 1 < len(chain) else entry
        builder = _Builder(block, pos, fn.code)
        same = TESTS[kind](builder, fn, what)
        builder.end("branch", "false", (same,), [generic, following])
    fn.blocks = [*chain, *fn.blocks, generic]


def flag_is_expected(b: _Builder, fn: Function, guard: EntryGuard) -> Value:
    """``owner.attribute is expected``, or the same for what calling the attribute gives."""
    if guard.call:
        null = b.op("null")
        (getter,) = b.op("const", getattr(guard.owner, guard.attribute))
        (value,) = b.op("call", (), (*null, getter))
    else:
        (owner,) = b.op("const", guard.owner)
        (value,) = b.op("load_attr", guard.attribute, (owner,))
    (expected,) = b.op("const", guard.expected)
    (same,) = b.op("is_op", 0, (value, expected))
    return same


def object_is_expected(b: _Builder, fn: Function, item: tuple[str, Any]) -> Value:
    """Whether a parameter is the object that it always is."""
    name, obj = item
    value = load_argument(b, fn, name)
    (expected,) = b.op("const", obj)
    (same,) = b.op("is_op", 0, (value, expected))
    return same


def length_is_expected(b: _Builder, fn: Function, item: tuple[str, int]) -> Value:
    """Whether a tuple has the declared number of items."""
    name, length = item
    value = load_argument(b, fn, name)
    (size,) = b.op("get_len", None, (value,))
    (expected,) = b.op("const", length)
    (same,) = b.op("compare_op", "==", (size, expected))
    # `get_len` only looks at the tuple; it lies below the result.
    b.op("drop", None, (value,), 0)
    return same


TESTS: dict[str, Any] = {
    "object": object_is_expected,
    "flag": flag_is_expected,
    "length": length_is_expected,
}


def call_generic_block(block: Block, fn: Function, request: Request, variable: str) -> None:
    """Fill `block` with a call of the generic function, which is in the free variable `variable`."""
    call_generic(_Builder(block, fn.prologue.get("RESUME"), fn.code), fn, request, variable)


def call_generic(b: _Builder, fn: Function, request: Request, variable: str | None = None) -> None:
    """Return what the generic function gives for the same arguments."""
    names = fn.arg_names
    fixed = request.constants
    positional = names[: fn.argcount]
    kwonly = names[fn.argcount : fn.argcount + fn.kwonlyargcount]
    rest = names[fn.argcount + fn.kwonlyargcount :]
    (null,) = b.op("null")
    if variable is None:
        (generic,) = b.op("const", request.function)
    else:
        (generic,) = b.op("load_deref", variable)
    base = request.function.__code__
    original = base.co_varnames[: base.co_argcount]
    if fixed or rest:
        args = [argument(b, fn, name, fixed) for name in original]
        (listed,) = b.op("build_list", None, args)
        if fn.flags & 0x04:
            star = load_argument(b, fn, rest.pop(0))
            b.op("list_extend", None, (listed, star), 0)
        (arguments,) = b.op("list_to_tuple", None, (listed,))
        keywords: list[Value] = []
        for name in [*kwonly, *(n for n in fixed if n not in original)]:
            keywords += [b.op("const", name)[0], argument(b, fn, name, fixed)]
        (table,) = b.op("build_map", None, keywords)
        if rest:
            extra = load_argument(b, fn, rest.pop(0))
            b.op("dict_update", None, (table, extra), 0)
        (result,) = b.op("call_ex", 1, (null, generic, arguments, table))
    else:
        args = [argument(b, fn, name, fixed) for name in (*positional, *kwonly)]
        (result,) = b.op("call", tuple(kwonly), (null, generic, *args))
    b.end("return_value", None, (result,), [])


def argument(b: _Builder, fn: Function, name: str, fixed: dict[str, Any]) -> Value:
    """What the generic function gets for a parameter."""
    return b.op("const", fixed[name])[0] if name in fixed else load_argument(b, fn, name)


def load_argument(b: _Builder, fn: Function, name: str) -> Value:
    """The value of a parameter, which may be in a cell."""
    return b.op("load_deref" if name in fn.cellvars else "load", name)[0]
