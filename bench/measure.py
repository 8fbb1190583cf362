"""Interleaved timing: what is compared runs in turns, so that a slow phase of the machine hits all.

Times drift by more than the differences that matter.  Many short rounds, each running every
candidate once in a rotating order, give medians that can be compared with each other.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds per call over all rounds."""

    median: float
    minimum: float
    spread: float

    @classmethod
    def of(cls, samples: list[float]) -> Timing:
        """Summary of per-round times; the spread is the distance between the quartiles."""
        low, _, high = statistics.quantiles(samples, n=4)
        return cls(statistics.median(samples), min(samples), high - low)


def one_round(call: Callable[[], object], number: int) -> float:
    """Microseconds per call of `number` calls in a row."""
    start = time.perf_counter_ns()
    for _ in repeat(None, number):
        call()
    return (time.perf_counter_ns() - start) / number / 1000


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    number: int,
    advance: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Time every candidate once per round.

    Args:
        candidates: name -> call without arguments.
        rounds: how often each is timed.
        number: calls per timing.
        advance: called after every round, for a progress bar.
    """
    names = list(candidates)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        one_round(candidates[name], number)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                samples[name].append(one_round(candidates[name], number))
            advance()
    finally:
        if collecting:
            gc.enable()
    return {name: Timing.of(values) for name, values in samples.items()}
