"""IR to code objects: one algorithm, one table per CPython version."""

from .common import lower

__all__ = ["lower"]
