"""What a person reads about a specialised function."""

from .text import explain_record

__all__ = ["explain_record"]
