"""The frames that Dynamo has transformed: which there are, and what they call.

A record of a transformed frame holds a copy of its code and only a weak reference to the code
itself, which lives exactly as long as Dynamo's cache entry: `torch._dynamo.reset()`, an eviction, an
invalidated guard all end it, and whoever asked is told at once.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from ..errors import SpecializationError
from ..ir import Function, Op, Value
from ..lift import lift
from . import internals

log = logging.getLogger("bcspec.torch")


class TransformedFrame:
    """What Dynamo made of one frame.

    Attributes:
        original: weak reference to the code of the user's function.
        copy: the transformed code, as a code object of our own.
        hits: how often it was found to have run.
        ended: called (with this record) when Dynamo lets go of the code.
    """

    def __init__(self, original: CodeType, transformed: CodeType) -> None:
        self.original = weakref.ref(original)
        self.transformed = weakref.ref(transformed, self._end)
        self.key = id(transformed)
        self.copy = transformed.replace()
        self.hits = 0
        self.alive = True
        self.ended: list[Callable[[TransformedFrame], None]] = []

    def _end(self, _: Any) -> None:
        self.alive = False
        _records.pop(self.key, None)
        for tell in self.ended:
            tell(self)
        self.ended.clear()


#: Records of the frames that are alive, by the identity of the transformed code.
_records: dict[int, TransformedFrame] = {}

#: Told of each new record.
_listeners: list[Callable[[TransformedFrame], None]] = []

_lock = threading.Lock()
_handle: list[Any] = []


def listen(tell: Callable[[TransformedFrame], None]) -> None:
    """Record the frames that Dynamo transforms from now on, and be told of each.

    Args:
        tell: called with each new record; called once only, however often it is given.
    """
    with _lock:
        if tell not in _listeners:
            _listeners.append(tell)
        if not _handle:
            _handle.append(internals.register_frame_hook()(_record))


def stop() -> None:
    """Record no more frames; records of those that are alive stay."""
    with _lock:
        _listeners.clear()
        while _handle:
            _handle.pop().remove()


def _record(original: CodeType, transformed: CodeType) -> None:
    """Dynamo's hook; an exception here would break the user's compile."""
    try:
        record = TransformedFrame(original, transformed)
        _records[record.key] = record
        for tell in list(_listeners):
            tell(record)
    except Exception:
        log.exception("a transformed frame stays as Dynamo made it: unexpected error")


def record_of(transformed: CodeType) -> TransformedFrame | None:
    """The record of a transformed code object, None if it was made while nobody listened."""
    return _records.get(id(transformed))


# -- what a frame calls ----------------------------------------------------------------------

#: Operations that only move values about, compare identities, look at containers or build them.
_QUIET = frozenset(
    "const null load load_check load_closure load_deref load_global copy store delete delete_check clear nop drop"
    " load_attr binary_subscr get_len list_to_tuple list_append list_extend map_add unpack_sequence is_op load_method"
    " build_tuple build_list build_map build_const_key_map build_slice return_value jump".split()
)


def calls_of(code: CodeType, namespace: dict[str, Any]) -> list[Any]:
    """What a transformed frame calls, if it does no more than move values and call.

    A frame that stores into objects, asks an object whether it is true or calls something found at run
    time (the function that resumes after a graph break, the class of a returned object) may run code
    that Dynamo would look at.

    Args:
        code: the transformed code.
        namespace: its globals.

    Raises:
        UnsupportedBytecode: it cannot be read.
        SpecializationError: it does more.
    """
    fn = lift(code)
    origins = Origins(fn)
    called: list[Any] = []
    for op in (op for block in fn.blocks for op in block.all_ops()):
        if op.name in _QUIET:
            continue
        if op.name == "branch":
            if not origins.is_flag(op.operands[0], namespace):
                raise SpecializationError("its frame branches")
            continue
        if op.name != "call" or op.arg:
            raise SpecializationError(f"its frame does more than call a graph: {op.name}")
        found = [known for value in op.operands[:2] for known in origins.known(value, namespace)]
        if not found:
            raise SpecializationError("its frame calls what it finds at run time")
        called += found
    return called


class Origins:
    """Which operation made the object that a value refers to, across blocks and slots."""

    def __init__(self, fn: Function) -> None:
        self.makers: dict[Value, Op] = {}
        self.stored: dict[Any, list[Value]] = {}
        self.incoming: dict[Value, list[Value]] = {}
        self.arguments = frozenset(fn.arg_names)
        for block in fn.blocks:
            for op in block.all_ops():
                self.makers.update(dict.fromkeys(op.results, op))
                if op.name == "store":
                    self.stored.setdefault(op.arg, []).append(op.operands[0])
            for edge in block.edges:
                for param, value in zip(edge.target.params, edge.args, strict=True):
                    self.incoming.setdefault(param, []).append(value)

    def of(self, value: Value) -> Op | None:
        """The one operation that made it, None if there may be several, or none is known."""
        found: set[Op] = set()
        seen: set[Value] = set()
        pending = [value]
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            op = self.makers.get(value)
            if op is None:
                sources = self.incoming.get(value, [])
            elif op.name in ("load", "load_check") and op.arg not in self.arguments:
                sources = self.stored.get(op.arg, [])
            elif op.name == "copy":
                sources = list(op.operands)
            else:
                sources = []
            pending += sources
            if not sources:
                if op is None:
                    return None
                found.add(op)
        return found.pop() if len(found) == 1 else None

    def known(self, value: Value, namespace: dict[str, Any]) -> Iterator[Any]:
        """The global, or attribute of a global, that it is."""
        op = self.of(value)
        if op is None:
            return
        if op.name == "load_global" and op.arg in namespace:
            yield namespace[op.arg]
        elif op.name in ("load_attr", "load_method"):
            for owner in self.known(op.operands[0], namespace):
                yield getattr(owner, op.arg, None)

    def is_flag(self, value: Value, namespace: dict[str, Any]) -> bool:
        """Whether asking it for its truth runs no code: a comparison of identities, a global bool."""
        op = self.of(value)
        if op is not None and op.name == "is_op":
            return True
        return any(isinstance(known, bool) for known in self.known(value, namespace))
