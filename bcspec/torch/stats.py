"""Counting what was specialised and what was not."""

from __future__ import annotations

import contextlib
import copy
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Stats:
    """What has happened since the process began.

    Attributes:
        graphs: compiled graphs that were looked at.
        specialised: functions specialised, by layer: "graph" (what AOTAutograd returned, and the
            two methods of its autograd function), "guard" (guards written in Python), "entry" (direct ways
            into a graph).
        declined: functions left generic, by reason.
        invalidated: direct ways taken back because Dynamo's cache entry ended.
        seconds: time spent specialising.
    """

    graphs: int = 0
    specialised: Counter[str] = field(default_factory=Counter)
    declined: Counter[str] = field(default_factory=Counter)
    invalidated: int = 0
    seconds: float = 0.0

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a `with` block as spent specialising."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started


#: The running count.
counts = Stats()


def stats() -> Stats:
    """A copy of what has been counted so far."""
    return copy.deepcopy(counts)
