"""Running the generic function until its state has settled, then replacing it.

The first call of a compiled graph sets `_is_first` flags, writes autotune caches and so on; what
torch declares as settled is only true afterwards, so a graph is specialised on its second call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..errors import BcspecError
from ..knowledge import Refinement
from . import internals
from .chain import graph_knowledge, reachable
from .residual import specialise
from .stats import counts

log = logging.getLogger("bcspec.torch")

#: Generic calls before a function is specialised.
SETTLED_AFTER = 1

#: Attribute of a function that stands for a generic one, be it a stand-in or its residual.
GENERIC = "__bcspec_generic__"


def generic_of(function: Any) -> Any:
    """What a function of a graph was before it settled and was specialised."""
    return getattr(function, GENERIC, function)


def settling(
    generic: FunctionType,
    replace: Callable[[Any, Any], None],
    types: dict[str, type] | None = None,
    after: int = SETTLED_AFTER,
    root: Any = None,
) -> Callable[..., Any]:
    """A stand-in that specialises a function when its state has settled.

    Args:
        generic: a function of positional arguments.
        replace: given the stand-in and another function, puts that in its place.
        types: exact types of parameters.
        after: generic calls before it is specialised.
        root: from where its graph is reached, if not from the function.

    Returns:
        The stand-in; it behaves as `generic`, whatever becomes of the specialisation.
    """
    calls = 0
    final: Callable[..., Any] | None = None
    busy = threading.Lock()

    def stand_in(*args: Any) -> Any:
        nonlocal calls, final
        if final is not None:
            # A caller that holds the stand-in itself.
            return final(*args)
        if calls < after or not busy.acquire(blocking=False):
            calls += 1
            return generic(*args)
        try:
            final = specialised(generic, len(args), types or {}, root=root)
            replace(stand_in, final)
        finally:
            busy.release()
        return final(*args)

    stand_in.__name__ = generic.__name__
    stand_in.__qualname__ = generic.__qualname__
    stand_in.__module__ = generic.__module__
    stand_in.__dict__.update(generic.__dict__)
    setattr(stand_in, GENERIC, generic)
    internals.keep_dynamo_out(stand_in)
    return stand_in


def specialised(
    generic: FunctionType,
    count: int,
    types: dict[str, type],
    facts: Sequence[Refinement | None] = (),
    root: Any = None,
) -> Callable[..., Any]:
    """The residual function, or `generic` itself with one logged reason; see `specialise`."""
    try:
        with counts.timed():
            known = graph_knowledge(reachable(generic if root is None else root))
            function = specialise(generic, count, types, known, facts)
    except BcspecError as error:
        counts.declined[str(error)] += 1
        log.warning("%s stays generic: %s", generic.__qualname__, error)
        return generic
    except Exception:
        # Nothing that goes wrong here may reach the user's program, which runs without us.
        log.exception("%s stays generic: unexpected error", generic.__qualname__)
        return generic
    setattr(function, GENERIC, generic)
    internals.keep_dynamo_out(function)
    counts.specialised["graph"] += 1
    log.debug("%s specialised", generic.__qualname__)
    return function
