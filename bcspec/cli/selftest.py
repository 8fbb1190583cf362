"""Put this interpreter's own code and tests through bcspec."""

from __future__ import annotations

import argparse
from pathlib import Path


def _roundtrip(args: argparse.Namespace) -> int:
    from ..selftest import roundtrip

    return roundtrip.main(args.roots, jobs=args.jobs, evaluate=args.evaluate, show=args.show)


def _cpython(args: argparse.Namespace) -> int:
    from ..selftest.cpython import main

    return main(args.names, transform=args.transform, show=args.show)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare `selftest roundtrip` and `selftest cpython`."""
    subparsers = parser.add_subparsers(title="selftests", required=True, metavar="NAME")

    roundtrip = subparsers.add_parser(
        "roundtrip", help="every code object under the roots through lift, lower and verify"
    )
    roundtrip.add_argument(
        "roots",
        nargs="*",
        type=Path,
        metavar="ROOT",
        help="file or directory (default: standard library and site-packages)",
    )
    roundtrip.add_argument(
        "--jobs", "-j", type=int, default=None, help="processes (default: cores)"
    )
    roundtrip.add_argument(
        "--evaluate", action="store_true", help="also evaluate, with no constants, in between"
    )
    roundtrip.add_argument("--show", type=int, default=3, help="offenders shown per reason")
    roundtrip.set_defaults(run=_roundtrip)

    cpython = subparsers.add_parser(
        "cpython", help="CPython's own tests, without bcspec and with every function through it"
    )
    cpython.add_argument("names", nargs="*", metavar="NAME", help="such as test_functools")
    cpython.add_argument(
        "--transform",
        default="bcspec.selftest.transform:transform",
        metavar="MODULE:FUNCTION",
        help="what each code object goes through",
    )
    cpython.add_argument("--show", type=int, default=3, help="refused functions shown per reason")
    cpython.set_defaults(run=_cpython)
