"""One rule per operation: `RULES` maps an operation of the source to what the evaluator does.

A rule is called as ``rule(evaluator, op)`` with the operands still in the environment of the top
frame.  It either folds the operation (binds results without emitting code) or calls `residual`.
"""

from . import (
    containers,
    contexts,
    control,
    exceptions,
    functions,
    hidden,
    operators,
    supers,
    variables,
)
from .registry import RULES

__all__ = [
    "RULES",
    "containers",
    "contexts",
    "control",
    "exceptions",
    "functions",
    "hidden",
    "operators",
    "supers",
    "variables",
]
