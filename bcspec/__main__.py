"""The command line: ``python -m bcspec``."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .cli import COMMANDS


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand of `bcspec.cli.COMMANDS`."""
    parser = argparse.ArgumentParser(
        prog="python -m bcspec",
        description="A partial evaluator for CPython bytecode.",
    )
    parser.add_argument("--version", action="version", version=f"bcspec {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        summary = (command.__doc__ or "").strip().splitlines()[0]
        sub = subparsers.add_parser(name, help=summary, description=summary)
        command.configure(sub)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; `sys.argv` by default.

    Returns:
        The exit status.
    """
    args = build_parser().parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
