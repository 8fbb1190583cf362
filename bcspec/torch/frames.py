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
from ..ir import Op, Value
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

#: Operations that only move values about, look at containers or build them.
_QUIET = frozenset(
    "const null load load_check load_closure load_deref load_global copy store delete delete_check clear nop drop"
    " load_attr binary_subscr get_len list_to_tuple list_append list_extend map_add unpack_sequence"
    " build_tuple build_list build_map build_const_key_map build_slice return_value jump".split()
)


def calls_of(code: CodeType, namespace: dict[str, Any]) -> list[Any]:
    """What a transformed frame calls, if it does no more than move values and call.

    A frame that stores into objects, branches or calls something found at run time (the function that
    resumes after a graph break, the class of a returned object) may run code that Dynamo would look at.

    Args:
        code: the transformed code.
        namespace: its globals.

    Raises:
        UnsupportedBytecode: it cannot be read.
        SpecializationError: it does more.
    """
    fn = lift(code)
    if len(fn.blocks) != 1:
        raise SpecializationError("its frame branches")
    makers: dict[Value, Op] = {}
    called: list[Any] = []
    for op in fn.blocks[0].all_ops():
        makers.update(dict.fromkeys(op.results, op))
        if op.name in _QUIET:
            continue
        if op.name != "call" or op.arg:
            raise SpecializationError(f"its frame does more than call a graph: {op.name}")
        found = list(known_callee(op, makers, namespace))
        if not found:
            raise SpecializationError("its frame calls what it finds at run time")
        called += found
    return called


def known_callee(op: Op, makers: dict[Value, Op], namespace: dict[str, Any]) -> Iterator[Any]:
    """The global, or attribute of a global, that a call names."""
    for value in op.operands[:2]:
        maker = makers[value]
        if maker.name == "load_global" and maker.arg in namespace:
            yield namespace[maker.arg]
        elif maker.name == "load_attr":
            owner = makers[maker.operands[0]]
            if owner.name == "load_global" and owner.arg in namespace:
                yield getattr(namespace[owner.arg], maker.arg, None)
