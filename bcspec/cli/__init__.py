"""The subcommands, one module each.

A module's first docstring line is its help text; `configure(parser)` declares its arguments and
sets `run`, a function from the parsed arguments to the exit status.
"""

from types import ModuleType

from . import bench, doctor, explain, selftest

COMMANDS: dict[str, ModuleType] = {
    "bench": bench,
    "selftest": selftest,
    "explain": explain,
    "doctor": doctor,
}

__all__ = ["COMMANDS"]
