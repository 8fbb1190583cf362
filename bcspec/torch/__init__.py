"""Specialised wrappers for `torch.compile`.

The only part of bcspec that knows torch; the core never imports it.
"""

from .backend import backend
from .install import install, installed, uninstall
from .stats import Stats, stats

__all__ = ["Stats", "backend", "install", "installed", "stats", "uninstall"]
