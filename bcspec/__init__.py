"""A partial evaluator for CPython bytecode.

A generic function and constant values in, a specialised function out.
"""

__version__ = "0.1.0"
