"""Put this interpreter's own code and tests through bcspec."""

from __future__ import annotations

import argparse
from pathlib import Path


def _roundtrip(args: argparse.Namespace) -> int:
    from ..selftest import roundtrip

    return roundtrip.main(args.roots, jobs=args.jobs, evaluate=args.evaluate, show=args.show)


def _cpython(args: argparse.Namespace) -> int:
    from ..selftest.cpython import all_names, main

    names = all_names() if args.all else args.names
    return main(names, transform=args.transform, show=args.show, jobs=args.jobs)


def _random(args: argparse.Namespace) -> int:
    from ..selftest.differential import main

    return main(args.seconds, args.seed, jobs=args.jobs, show=args.show)


def _opcodes(args: argparse.Namespace) -> int:
    from ..selftest.opcodes import main

    return main()


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare `selftest opcodes`, `roundtrip`, `cpython` and `random`."""
    subparsers = parser.add_subparsers(title="selftests", required=True, metavar="NAME")

    opcodes = subparsers.add_parser(
        "opcodes", help="the interpreter's instructions against the tables of its version"
    )
    opcodes.set_defaults(run=_opcodes)

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
    cpython.add_argument("--all", action="store_true", help="every test file (takes an hour)")
    cpython.add_argument("--jobs", "-j", type=int, default=None, help="processes (default: cores)")
    cpython.add_argument(
        "--transform",
        default="bcspec.selftest.transform:transform",
        metavar="MODULE:FUNCTION",
        help="what each code object goes through",
    )
    cpython.add_argument("--show", type=int, default=3, help="refused functions shown per reason")
    cpython.set_defaults(run=_cpython)

    random = subparsers.add_parser(
        "random",
        help="random programs, generic against residual, value by value and death by death",
    )
    random.add_argument("--seconds", type=float, default=60, help="for how long (default 60)")
    random.add_argument("--seed", type=int, default=0, help="of the first program (default 0)")
    random.add_argument("--jobs", "-j", type=int, default=None, help="processes (default: cores)")
    random.add_argument("--show", type=int, default=5, help="differences shown, shrunk")
    random.set_defaults(run=_random)
