"""What bcspec raises."""

from __future__ import annotations


class BcspecError(Exception):
    """Base of every error that bcspec raises."""


class UnsupportedBytecode(BcspecError):
    """A code object that bcspec cannot lift or lower; the original function is kept."""


class VerificationError(BcspecError):
    """A code object that the bytecode verifier does not accept."""


class SpecializationError(BcspecError):
    """A function that could not be specialised, raised in strict mode only."""
