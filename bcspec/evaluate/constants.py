"""Constants that code objects must not hold move into closure cells.

Code objects are not visited by the cyclic collector: an object that can reach the function from its
own ``co_consts`` would leak for ever.
"""

from __future__ import annotations

from types import CellType
from typing import Any

from ..ir import Function
from .domain import is_atomic


def hold_constants_in_cells(fn: Function, cells: dict[str, CellType]) -> None:
    """Turn each non-atomic constant into a free variable.

    Args:
        fn: residual IR, changed in place.
        cells: free variables and their cells; extended.
    """
    names: dict[int, str] = {}
    taken = {*cells, *fn.varnames, *fn.cellvars}
    for block in fn.blocks:
        for op in block.ops:
            if op.name != "const" or is_atomic(op.arg):
                continue
            name = names.get(id(op.arg))
            if name is None:
                name = readable_name(op.arg, taken)
                names[id(op.arg)] = name
                taken.add(name)
                cells[name] = CellType(op.arg)
            op.name, op.arg = "load_deref", name


def readable_name(obj: Any, taken: set[str]) -> str:
    """A free-variable name that tells a reader of the residual function what it is."""
    own = obj.get("__name__") if type(obj) is dict else getattr(obj, "__name__", None)
    if isinstance(own, str):
        own = own.rpartition(".")[2] + ("_vars" if type(obj) is dict else "")
    base = own if isinstance(own, str) and own.isidentifier() else type(obj).__name__.lower()
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name
