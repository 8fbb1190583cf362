"""Code objects to IR: one table per CPython version, one algorithm."""

from .common import lift

__all__ = ["lift"]
