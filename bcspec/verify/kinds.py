"""What the verifier knows of one slot of the operand stack.

A kind is an integer: the low bits hold exactly one tag, the bits above hold a detail (the length
of a tuple, the index of a code constant).  What an instruction accepts is a mask of tags, so one
`&` decides.  The tags are the properties that the interpreter trusts without a check.

The order is a flat lattice with three exceptions that `join` knows: what may be NULL, or has only
one use, goes to `MAYBE`, exceptions and `None` to `EXC_OR_NONE`, lists to `LIST`.
"""

from __future__ import annotations

NULL = 1 << 0  #: no object
MAYBE = 1 << 1  #: NULL or an object (the lower slot after LOAD_METHOD)
VALUE = 1 << 2  #: some object
EXC = 1 << 3  #: an exception instance
EXC_OR_NONE = 1 << 4  #: an exception instance or None
PREV = 1 << 5  #: the exception handled before, as PUSH_EXC_INFO leaves it
LASTI = 1 << 6  #: the instruction index that a handler with `lasti` is given
LIST = 1 << 7
EXC_LIST = 1 << 8  #: a list of exceptions and None (an empty one too)
DICT = 1 << 9
SET = 1 << 10
TUPLE = 1 << 11  #: detail: length + 1, or 0 when unknown
CELL = 1 << 12
CELLS = 1 << 13  #: a tuple of cells; detail: its length
CODE = 1 << 14  #: detail: index in co_consts
ITER = 1 << 15  #: has `tp_iternext`
#: A function whose first argument must be an iterator: a comprehension's body.  Only to be called.
#: Detail: whether it gives a generator.
ITERATES = 1 << 16
#: What an asynchronous generator wraps around a value.  Only to be yielded.
WRAPPED = 1 << 17
FUNCTION = 1 << 18  #: a Python function
BOOL = 1 << 19  #: True or False
#: A function that still needs its closure; detail: the index of its code in co_consts.
UNCLOSED = 1 << 20

SHIFT = 21
TAGS = (1 << SHIFT) - 1
ANY = TAGS
NULLS = NULL | MAYBE
RESTRICTED = ITERATES | WRAPPED | UNCLOSED
OBJECT = TAGS & ~NULLS & ~RESTRICTED
EXCS = EXC | EXC_OR_NONE | PREV
LISTS = LIST | EXC_LIST
TUPLES = TUPLE | CELLS

_NAMES = {
    NULL: "NULL",
    MAYBE: "possibly NULL",
    VALUE: "an object",
    EXC: "an exception",
    EXC_OR_NONE: "an exception or None",
    PREV: "the previously handled exception",
    LASTI: "a lasti",
    LIST: "a list",
    EXC_LIST: "a list of exceptions",
    DICT: "a dict",
    SET: "a set",
    TUPLE: "a tuple",
    CELL: "a cell",
    CELLS: "a tuple of cells",
    CODE: "a code object",
    ITER: "an iterator",
    ITERATES: "a comprehension's function",
    WRAPPED: "a wrapped value",
    FUNCTION: "a function",
    BOOL: "a bool",
    UNCLOSED: "a function without its closure",
}


class Borrowed(int):
    """A kind on the operand stack, and the slot of the frame that lends the reference."""

    lender: int

    def __new__(cls, kind: int, lender: int) -> Borrowed:
        self = super().__new__(cls, kind)
        self.lender = lender
        return self


def tuple_of(length: int) -> int:
    """The kind of a tuple of known length."""
    return TUPLE | (length + 1) << SHIFT


def join(a: int, b: int) -> int:
    """The least kind that covers both."""
    if a == b:
        return a
    tags = (a | b) & TAGS
    if tags & (NULLS | RESTRICTED):
        return MAYBE
    if not tags & ~EXCS:
        return EXC_OR_NONE
    if not tags & ~LISTS:
        return LIST
    return tags if tags == TUPLE else VALUE


def describe(kinds: int) -> str:
    """A kind, or a mask of accepted tags, in words."""
    tags = kinds & TAGS
    if tags == OBJECT:
        return "an object"
    return " or ".join(name for tag, name in _NAMES.items() if tags & tag)
