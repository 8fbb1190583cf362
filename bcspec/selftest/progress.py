"""Progress on stderr: a bar with `rich` where stderr is a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

#: Seconds between two plain lines.
_INTERVAL = 10.0


def _plain(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    last = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= _INTERVAL or done == total:
            last = now
            print(f"{label}: {done}/{total}", file=sys.stderr, flush=True)


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Pass `items` on and show how many of them are done.

    Args:
        items: what is being worked on.
        total: how many there will be.
        label: what stands in front of the bar.

    Returns:
        An iterator over the same items.
    """
    if not sys.stderr.isatty():
        return _plain(items, total, label)
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        return _plain(items, total, label)
    return iter(rich_track(items, description=label, total=total, console=Console(stderr=True)))
