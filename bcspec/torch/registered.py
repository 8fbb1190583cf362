"""What Dynamo loads when a user asks for `backend="bcspec"` by name.

Loading it is the first that bcspec hears of such a function: from here on it sees what
`torch.compile` makes, and steps in where the backend is one of its own.
"""

from .backend import bcspec
from .install import hook

__all__ = ["bcspec"]

hook("backend")
