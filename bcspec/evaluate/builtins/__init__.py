"""Builtin functions and methods: which calls are folded, and how."""

from . import classes, iterables, methods, values
from .registry import BUILTINS, METHODS, give

__all__ = ["BUILTINS", "METHODS", "classes", "give", "iterables", "methods", "values"]
