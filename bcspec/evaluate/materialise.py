"""Building virtual objects for real when they escape: one rule per kind.

A rule is called as ``rule(machine, index, ref, shared)``: entry `index` of the hand is the virtual
object `ref`; afterwards it is a temporary.  `shared` says that something else holds it, too: then
everyone gets the real object.  The allocation happens where the object escapes, not where the
generic function makes it; nothing can tell, since nobody has seen it before.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..ir.ops import CLOSURE, FUNCTION_PARTS
from .domain import NULL, UNBOUND, AVal, Const, Dyn, Entry, Own, Ref, Tmp, VObj

if TYPE_CHECKING:
    from .machine import Machine


def _spread(m: Machine, index: int, parts: list[AVal]) -> None:
    """Replace entry `index` of the hand by `parts`, each brought onto the stack."""
    hand = m.state.hand
    above = hand[index + 1 :]
    del hand[index:]
    for part in parts:
        hand.append(Entry(part, part.value if isinstance(part, Tmp) else None))
    m.state.hand.extend(above)
    for position in range(index, index + len(parts)):
        m.realise(position)


def _gather(m: Machine, index: int, count: int, name: str, arg: Any, type_: type | None) -> None:
    """Apply an operation to `count` entries from `index` on; its result takes their place."""
    hand = m.state.hand
    temps = [m.value_of(entry) for entry in hand[index : index + count]]
    (value,) = m.emit(name, arg, temps, 1)
    hand[index : index + count] = [Entry(Tmp(value, type_), value)]


def _call(m: Machine, index: int, function: Any, parts: list[AVal], type_: type | None) -> None:
    """The same for a call of a known constructor, which cannot fail."""
    _spread(m, index, [NULL, Const(function), *parts])
    _gather(m, index, len(parts) + 2, "call", (), type_)


def _kids(m: Machine, ref: Ref, shared: bool) -> tuple[AVal, ...]:
    """The kids of `ref`, which no longer hold anything when nobody else has the object."""
    obj = m.state.heap[ref.id]
    if not shared:
        m.state.heap[ref.id] = obj.with_kids(())
    return obj.kids


def _done(m: Machine, index: int, ref: Ref, shared: bool, type_: type | None) -> None:
    if shared:
        m.share(index, ref, type_)
        m.collect()


def _sequence(name: str, type_: type) -> Any:
    def rule(m: Machine, index: int, ref: Ref, shared: bool) -> None:
        kids = _kids(m, ref, shared)
        _spread(m, index, list(kids))
        _gather(m, index, len(kids), name, None, type_)
        _done(m, index, ref, shared, type_)

    return rule


def _dict(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    keys = m.state.heap[ref.id].tag
    kids = _kids(m, ref, shared)
    parts: list[AVal] = []
    for key, kid in zip(keys, kids, strict=True):
        parts += [Const(key.obj), kid]
    _spread(m, index, parts)
    _gather(m, index, len(parts), "build_map", None, dict)
    _done(m, index, ref, shared, dict)


def _cell(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """A cell of the function itself becomes a real one; that of an unfolded function is allocated.

    The object is shared before its content is stored, since the content may lead back to it.
    """
    from .emission import Restart

    obj = m.state.heap[ref.id]
    name, depth = obj.tag
    if depth == 0:
        raise Restart("real_cells", name, f"the cell of {name} escapes")
    (content,) = obj.kids
    if content is UNBOUND or (isinstance(content, Dyn) and content.maybe):
        raise m.generic_from_here(f"the empty cell of {name} escapes")
    m.state.heap[ref.id] = obj.with_kids((UNBOUND,))
    m.state.held_aside.append(content)
    _call(m, index, types.CellType, [], types.CellType)
    m.share(index, ref, types.CellType)
    content = m.state.held_aside.pop()
    m.state.hand.append(Entry(content))
    m.realise(len(m.state.hand) - 1)
    stored = m.state.hand.pop()
    (copy,) = m.emit("copy", None, (m.value_of(m.state.hand[index]),), 1)
    m.emit("store_attr", "cell_contents", (m.value_of(stored), copy))
    m.collect()


def _function(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    obj = m.state.heap[ref.id]
    cells = obj.kids[len(FUNCTION_PARTS) :]
    for cell in cells:
        _touch_cell(m, cell)
    own = obj.tag.globals.obj is m.request.function.__globals__
    # MAKE_FUNCTION trusts its closure: only cells that the interpreter made go there.
    trusted = not m.request.assume or all(isinstance(c, (Own, Const)) for c in cells)
    (_make_function if own and trusted else _construct_function)(m, index, ref, shared)
    _done(m, index, ref, shared, types.FunctionType)


def _make_function(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """MAKE_FUNCTION, which takes the globals of the residual function."""
    code = m.state.heap[ref.id].tag.code.obj
    kids = _kids(m, ref, shared)
    cells = list(kids[len(FUNCTION_PARTS) :])
    given = {bit: part for bit, part in zip(FUNCTION_PARTS, kids) if part is not UNBOUND}
    parts, flags = list(given.values()), sum(given)
    _spread(m, index, parts)
    count = len(parts)
    if cells:
        flags |= CLOSURE
        m.state.hand.insert(index + count, Entry(UNBOUND))
        _tuple_of(m, index + count, cells)
        count += 1
    m.state.hand.insert(index + count, Entry(UNBOUND))
    _spread(m, index + count, [Const(code)])
    _gather(m, index, count + 1, "make_function", flags, types.FunctionType)


def _construct_function(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """A function of another module: its constructor takes the globals."""
    tag = m.state.heap[ref.id].tag
    defaults, kwdefaults, annotations, annotate, *cells = _kids(m, ref, shared)
    code = tag.code.obj
    parts: list[AVal] = [Const(code), Const(tag.globals.obj), Const(code.co_name)]
    parts.append(Const(None) if defaults is UNBOUND else defaults)
    parts.append(m.new_ref(VObj("tuple", None, tuple(cells))) if cells else Const(None))
    rest = (kwdefaults, annotations, annotate)
    if all(part is UNBOUND for part in rest):
        _call(m, index, types.FunctionType, parts, types.FunctionType)
        return
    parts += [Const(None) if part is UNBOUND else part for part in rest]
    _call(m, index, annotated_function, parts, types.FunctionType)


def annotated_function(
    code: types.CodeType,
    namespace: dict[str, Any],
    name: str,
    defaults: tuple[Any, ...] | None,
    closure: tuple[types.CellType, ...] | None,
    kwdefaults: dict[str, Any] | None,
    annotations: tuple[Any, ...] | None,
    annotate: Any,
) -> types.FunctionType:
    """What residual code calls to make a function of another module with all that it has.

    Args:
        annotations: names and values in turn, as MAKE_FUNCTION takes them.
        annotate: the function that gives them, where the version has one.
    """
    function = types.FunctionType(code, namespace, name, defaults, closure)
    function.__kwdefaults__ = kwdefaults
    if annotations is not None:
        function.__annotations__ = dict(zip(annotations[::2], annotations[1::2]))
    if annotate is not None:
        function.__annotate__ = annotate  # type: ignore[attr-defined]
    return function


def _tuple_of(m: Machine, index: int, parts: list[AVal]) -> None:
    _spread(m, index, parts)
    _gather(m, index, len(parts), "build_tuple", None, tuple)


def _touch_cell(m: Machine, cell: AVal) -> None:
    """Cells of the function itself are made real by a restart before anything is built."""
    from .emission import Restart

    if isinstance(cell, Ref):
        name, depth = m.state.heap[cell.id].tag
        if depth == 0:
            raise Restart("real_cells", name, f"the cell of {name} escapes")


def _method(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    kids = _kids(m, ref, shared)
    _call(m, index, types.MethodType, list(kids), types.MethodType)
    _done(m, index, ref, shared, types.MethodType)


def _super(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    kids = _kids(m, ref, shared)
    _call(m, index, super, list(kids), super)
    _done(m, index, ref, shared, super)


def _slice(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    kids = _kids(m, ref, shared)
    _spread(m, index, list(kids))
    _gather(m, index, 3, "build_slice", None, slice)
    _done(m, index, ref, shared, slice)


def _iterator(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    obj = m.state.heap[ref.id]
    position = obj.tag
    (source,) = _kids(m, ref, shared)
    if isinstance(source, Const) and isinstance(source.obj, range):
        _spread(m, index, [Const(source.obj[position:])])
        _gather(m, index, 1, "get_iter", None, None)
    else:
        _spread(m, index, [source])
        _gather(m, index, 1, "get_iter", None, None)
        if position:
            _advance(m, index, position)
    _done(m, index, ref, shared, None)


def _zipped(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """A `zip` in progress: advanced iterators, zipped again."""
    position = m.state.heap[ref.id].tag
    kids = _kids(m, ref, shared)
    parts: list[AVal] = [m.new_ref(VObj("iterator", position, (kid,))) for kid in kids]
    _call(m, index, zip, parts, None)
    _done(m, index, ref, shared, None)


def _advance(m: Machine, index: int, position: int) -> None:
    """Move a fresh list or tuple iterator to `position` (its documented pickle interface)."""
    (copy,) = m.emit("copy", None, (m.value_of(m.state.hand[index]),), 1)
    method, self_ = m.emit("load_method", "__setstate__", (copy,), 2)
    (where,) = m.emit("const", position, (), 1)
    (result,) = m.emit("call", (), (method, self_, where), 1)
    m.emit("drop", None, (result,))


def _instance(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    cls, names = m.state.heap[ref.id].tag
    kids = m.state.heap[ref.id].kids
    base = len(m.state.held_aside)
    m.state.held_aside.extend(kids)
    m.state.heap[ref.id] = m.state.heap[ref.id].with_kids(())
    _call(m, index, object.__new__, [Const(cls.obj)], cls.obj)
    if shared:
        m.share(index, ref, cls.obj)
    for name in names:
        part = m.state.held_aside.pop(base)
        m.state.hand.append(Entry(part))
        m.realise(len(m.state.hand) - 1)
        value = m.state.hand.pop()
        (copy,) = m.emit("copy", None, (m.value_of(m.state.hand[index]),), 1)
        m.emit("store_attr", name, (m.value_of(value), copy))
    m.collect()


def _generator(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    from .emission import Restart

    tag = m.state.heap[ref.id].tag
    code = getattr(tag, "code", tag)
    raise Restart("no_unfold", code, "a generator escapes after it was started")


def _class(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """The class of a caught exception."""
    kids = _kids(m, ref, shared)
    _call(m, index, type, list(kids), None)
    _done(m, index, ref, shared, None)


def _exception(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """It has to be raised for real: that gives it a traceback and a context."""
    from .emission import Restart

    obj = m.state.heap[ref.id]
    point = obj.tag[1] if obj.kind == "exception" else obj.tag
    raise Restart("real_raises", point, "an exception is looked at")


def _gencall(m: Machine, index: int, ref: Ref, shared: bool) -> None:
    """A generator that has not been started: make the call."""
    kwnames = m.state.heap[ref.id].tag
    parts = list(_kids(m, ref, shared))
    _spread(m, index, [NULL, *parts])
    _gather(m, index, len(parts) + 1, "call", kwnames, None)
    _done(m, index, ref, shared, None)


MATERIALISERS: dict[str, Any] = {
    "tuple": _sequence("build_tuple", tuple),
    "list": _sequence("build_list", list),
    "dict": _dict,
    "slice": _slice,
    "cell": _cell,
    "function": _function,
    "method": _method,
    "super": _super,
    "iterator": _iterator,
    "zipped": _zipped,
    "instance": _instance,
    "generator": _generator,
    "running": _generator,
    "finished": _generator,
    "gencall": _gencall,
    "class": _class,
    "exception": _exception,
    "handled": _exception,
}
