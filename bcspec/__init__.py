"""A partial evaluator for CPython bytecode."""

from .api import (
    assume_constant,
    explain,
    invalidate,
    no_unfold,
    original,
    partial_eval,
    specialize,
)
from .errors import BcspecError, SpecializationError, UnsupportedBytecode, VerificationError
from .knowledge import EntryGuard, Knowledge, Reading

__version__ = "0.1.0"

__all__ = [
    "BcspecError",
    "EntryGuard",
    "Knowledge",
    "Reading",
    "SpecializationError",
    "UnsupportedBytecode",
    "VerificationError",
    "__version__",
    "assume_constant",
    "explain",
    "invalidate",
    "no_unfold",
    "original",
    "partial_eval",
    "specialize",
]
