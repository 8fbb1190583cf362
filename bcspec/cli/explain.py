"""Say what specialising a function does: folded, removed, unrolled, unfolded, assumed, declined."""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from typing import Any


def _constant(text: str) -> tuple[str, Any]:
    """`name=literal` as a pair.

    Raises:
        argparse.ArgumentTypeError: no `=`, or the value is not a literal.
    """
    name, separator, literal = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LITERAL")
    try:
        return name, ast.literal_eval(literal)
    except (ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(f"{literal!r} is not a literal: {error}") from None


def resolve(target: str) -> Any:
    """The object that `module:attribute.path` names.

    Args:
        target: such as ``functools:singledispatch``.

    Raises:
        ValueError: no colon in `target`.
        ImportError: there is no such module.
        AttributeError: the module has no such object.
    """
    module, separator, path = target.partition(":")
    if not separator or not path:
        raise ValueError(f"{target!r} is not MODULE:FUNCTION")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _run(args: argparse.Namespace) -> int:
    from .. import explain, original, partial_eval

    sys.path.insert(0, "")
    try:
        function = resolve(args.target)
    except (ValueError, ImportError, AttributeError) as error:
        print(f"explain: {error}", file=sys.stderr)
        return 2
    if original(function) is function or args.constant:
        function = partial_eval(original(function), constants=dict(args.constant))
    print(explain(function))
    return 0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare `explain MODULE:FUNCTION [--constant NAME=LITERAL ...]`."""
    parser.add_argument("target", metavar="MODULE:FUNCTION")
    parser.add_argument(
        "--constant",
        "-c",
        action="append",
        default=[],
        type=_constant,
        metavar="NAME=LITERAL",
        help="an argument that is fixed (may be given several times)",
    )
    parser.set_defaults(run=_run)
