"""What CPython 3.14 changes in the instructions of 3.13.

Source of the effects: the interpreter loop of 3.14 (``Python/bytecodes.c``).  A local may be loaded as
a borrowed reference: what it refers to must stay in its slot until the reference is consumed
(``optimize_load_fast`` in ``Python/flowgraph.c``).
"""

from __future__ import annotations

import opcode

from . import actions as a
from . import borrowed as b
from . import kinds as k
from . import py312, py313
from .interp import Machine
from .model import Effect, Operand, Spec, Table
from .specs import NOTHING, OBJECT, bounded, fixed, peeks

_FUNCTION = k.FUNCTION | k.ITERATES


def _call_ex(_: int) -> Effect:
    """A callable, a NULL that goes without being released, arguments, keywords or NULL."""
    return Effect((OBJECT, k.NULL, OBJECT, OBJECT | k.NULL), 4, (k.VALUE,))


def _set_function_attribute(flag: int) -> Effect:
    """What gives the annotations is called for them."""
    return Effect((k.FUNCTION, _FUNCTION), 2) if flag == 16 else py313.set_function_attribute(flag)


def _interpolation(flags: int) -> Effect:
    return Effect(None, 2 + (flags & 1), (k.VALUE,))


def _compare(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """A bool where one is asked for, and in two tests by a small number that the compiler writes.

    They are that of a pattern's length, and that of the format that annotations are asked for in.
    """
    words = m.words
    small = words.name(index - 1) == "LOAD_SMALL_INT" and not words.joins[index]
    argument = words.name(index - 2).startswith("LOAD_FAST") and words.args[index - 2] == 0
    of_format = argument and m.code.co_varnames[0] in ("format", ".format")
    known = small and not words.joins[index - 1]
    known = known and (of_format or words.name(index - 2) == "GET_LEN")
    a.compare_for_truth(m, stack, index, arg | 16 if known else arg)


#: Holds a set of numbers, the annotations that were come to; only the compiler reads and writes it.
_CONDITIONAL = "__conditional_annotations__"


def _load_name(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push what a name is bound to."""
    stack.append(k.SET if m.code.co_names[arg] == _CONDITIONAL else k.VALUE)


def _load_deref(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push what a cell holds."""
    a.load_deref(m, stack, index, arg)
    if _CONDITIONAL in m.code.co_cellvars and m.words.name_of_slot(arg) == _CONDITIONAL:
        stack[-1] = k.SET


_GONE = """
    BEFORE_WITH BEFORE_ASYNC_WITH BINARY_SUBSCR BUILD_CONST_KEY_MAP LOAD_ASSERTION_ERROR RETURN_CONST
""".split()

_OLD = {name: spec for name, spec in py313.TABLE.specs.items() if name not in _GONE}

_STACK = {
    # What `with` looked up may be a NULL beside the exit method.
    "POP_TOP": peeks(OBJECT | k.NULLS, pops=1, raises=False),
    "POP_ITER": fixed(1, raises=False),
    "NOT_TAKEN": fixed(0, raises=False),
    "LOAD_SMALL_INT": fixed(0, 1, **bounded(256), raises=False),
    "LOAD_COMMON_CONSTANT": fixed(
        0,
        1,
        **bounded(len(getattr(opcode, "_common_constants", ()))),
        raises=False,
    ),
}

_VARIABLES = {
    "LOAD_FAST_BORROW": Spec(NOTHING, Operand.SLOT, raises=False, action=b.load_fast),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": Spec(
        NOTHING, raises=False, action=a.two_slots(b.push_slot, b.push_slot)
    ),
    "LOAD_NAME": Spec(NOTHING, Operand.NAME, action=_load_name),
    "LOAD_DEREF": Spec(NOTHING, Operand.DEREF, action=_load_deref),
    **b.keeping_lenders(
        _OLD,
        "STORE_FAST DELETE_FAST LOAD_FAST_AND_CLEAR MAKE_CELL STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST",
    ),
}

_OPERATIONS = {
    "BINARY_OP": fixed(2, 1, **bounded(27)),
    "COMPARE_OP": Spec(Effect(None, 2), **bounded(6 << 5), action=_compare),
    "BUILD_INTERPOLATION": Spec(_interpolation, **bounded(16, 2)),
    "BUILD_TEMPLATE": peeks(k.TUPLES, k.TUPLES, pops=2, pushes=(k.VALUE,)),
    "CALL_FUNCTION_EX": Spec(_call_ex),
    "SET_FUNCTION_ATTRIBUTE": Spec(
        _set_function_attribute, **bounded(17, 1), raises=False, action=a.set_function_attribute
    ),
    "LOAD_SPECIAL": Spec(Effect(None, 1, (k.VALUE, k.MAYBE)), **bounded(4)),
    "WITH_EXCEPT_START": peeks(OBJECT, OBJECT | k.NULLS, k.LASTI, k.PREV, k.EXC, pushes=(k.VALUE,)),
    "FOR_ITER": py312.for_iter("END_FOR", "POP_ITER"),
}

TABLE = Table(
    version=(3, 14),
    specs={**_OLD, **_STACK, **_VARIABLES, **_OPERATIONS},
    prologue=py313.TABLE.prologue,
    only_prologue=py313.TABLE.only_prologue,
    unchecked=py313.TABLE.unchecked | {"LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"},
)
