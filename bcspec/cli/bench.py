"""Measure on this machine what specialising gains."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

#: Benchmark name -> (module with `main(argv) -> int`, summary).
BENCHES: dict[str, tuple[str, str]] = {
    "overheads": ("bench.overheads", "add one: eager, stock torch.compile, bcspec, bare kernel"),
    "cases": ("bench.cases", "many kinds of compiled calls: eager, stock, bcspec, bare kernels"),
    "scaling": ("bench.scaling", "what each further argument, output, parameter ... adds"),
    "compile": ("bench.compile", "what specialising costs: time, share of a compile, memory"),
    "memory": ("bench.memory", "graphs compiled and dropped: what is left of them"),
    "instructions": ("bench.instructions", "instructions per warm call, counted by callgrind"),
    "reference": ("bench.reference", "torch's generic wrappers: generic, generated, specialised"),
}


def _checkout() -> Path:
    """The directory that holds `bench/`, which lies beside the package in a checkout."""
    return Path(__file__).resolve().parents[2]


def _run(args: argparse.Namespace) -> int:
    root = _checkout()
    if not (root / "bench").is_dir():
        print("the benchmarks are in a checkout of bcspec, not in the package", file=sys.stderr)
        return 2
    # First, so that no other top-level `bench` is taken for ours.
    sys.path.insert(0, str(root))
    module = importlib.import_module(BENCHES[args.bench][0])
    return module.main(args.arguments)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare `bench NAME [ARGUMENTS]`; the arguments belong to the benchmark."""
    subparsers = parser.add_subparsers(title="benchmarks", required=True, metavar="NAME")
    for name, (_, summary) in BENCHES.items():
        # Without prefix and help of its own: everything after the name is the benchmark's.
        sub = subparsers.add_parser(name, help=summary, add_help=False, prefix_chars="\0")
        sub.add_argument("arguments", nargs=argparse.REMAINDER)
        sub.set_defaults(run=_run, bench=name)
