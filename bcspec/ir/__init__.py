"""The intermediate representation: a linear register IR over a control-flow graph."""

from .check import IRCheckError, check
from .model import CLASH, GENERATORS, Block, Edge, Function, Handler, Op, Value
from .ops import BINARY_OPERATORS, OPS, OpSpec
from .printer import format_function

__all__ = [
    "BINARY_OPERATORS",
    "CLASH",
    "GENERATORS",
    "OPS",
    "Block",
    "Edge",
    "Function",
    "Handler",
    "IRCheckError",
    "Op",
    "OpSpec",
    "Value",
    "check",
    "format_function",
]
