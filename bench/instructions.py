"""Add one, and a training Linear: instructions per warm call, counted by callgrind.

Counts do not drift with the load of the machine; they settle what times cannot.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from torch.utils.benchmark import Timer

from .measure import Timing
from .overheads import MODES
from .report import progress_bar, row, table, write

#: What is called -> the expression that makes it and its argument, given `grad`.
CALLED = {
    "add one": "overheads.fresh_copy(overheads.add_one), torch.randn(4, requires_grad=grad)",
    "Linear(4, 4)": "torch.nn.Linear(4, 4), torch.randn(2, 4)",
}

#: Column -> what is called in it.
CALLS = {
    "eager": "f",
    "stock": "torch.compile(f)",
    "bcspec": "torch.compile(f, backend='bcspec')",
    "floor": "bare_calls(f, x)",
}

SETUP = """\
import sys
sys.path.insert(0, {root!r})
import torch
from bench import overheads
from bench.floor import bare_calls
torch.set_num_threads(1)
context, grad = overheads.MODES[{mode!r}]
entered = context()
entered.__enter__()
f, x = {called}
call = {column}
arguments = () if {column!r}.startswith("bare_calls") else (x,)
for _ in range(overheads.WARM_UP + 3):
    call(*arguments)
"""


def count(called: str, mode: str, column: str, number: int) -> Timing:
    """Instructions of one warm call, as the average of `number`."""
    setup = SETUP.format(
        root=str(Path(__file__).resolve().parents[1]),
        mode=mode,
        called=CALLED[called],
        column=CALLS[column],
    )
    found = Timer("call(*arguments)", setup=setup).collect_callgrind(
        number=number, collect_baseline=False
    )
    average = found.counts() / number
    return Timing(average, average, 0.0)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="bcspec bench instructions", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--number", type=int, default=100, help="calls counted (default 100)")
    parser.add_argument("--case", action="append", choices=CALLED, help="only this one")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this one")
    parser.add_argument("--column", action="append", choices=CALLS, help="only this one")
    options = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("bench instructions: needs valgrind, which is not on PATH", file=sys.stderr)
        return 2
    # Torch starts `python` under valgrind: it has to be the one that runs this.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    console = Console()
    cases = [(c, m) for c in options.case or CALLED for m in options.mode or MODES]
    columns = options.column or list(CALLS)
    rows = []
    with progress_bar(console, len(cases) * len(columns)) as step:
        for called, mode in cases:
            counts = {}
            for column in columns:
                advance = step(f"{called}, {mode}, {column}")
                # A module has no code object of its own: its graphs cannot be told from others'.
                if column != "floor" or called == "add one":
                    counts[column] = count(called, mode, column, options.number)
                advance()
            rows.append(row(called, mode, counts, unit="instructions"))
    console.print(table("warm calls", rows, unit="instructions"))
    write(options.json, rows)
    return 0
