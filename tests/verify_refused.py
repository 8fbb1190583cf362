"""Code that the verifier must refuse: what every version has, and what only some have."""

from __future__ import annotations

import opcode
import sys
from typing import Any

Instruction = tuple[str, int]


def body(*text: str) -> list[Instruction]:
    """Instructions from "NAME arg" lines, after RESUME."""
    words = [line.split() for line in ("RESUME 0", *text)]
    return [(name, int(arg[0]) if arg else 0) for name, *arg in words]


RETURN = ("LOAD_FAST 0", "RETURN_VALUE")
HANDLER = ("PUSH_EXC_INFO", "POP_TOP", "POP_EXCEPT", *RETURN)

#: Title, instructions, fields of the code object, what the error says.
Refused = tuple[str, list[Instruction], dict[str, Any], str]

CELL = {"co_cellvars": ("a",)}

#: How many operators BINARY_OP has.
OPERATORS = len(opcode._nb_ops)  # type: ignore[attr-defined]


def _closed(x):
    return lambda: x


#: A code object with one free variable.
CLOSED = next(const for const in _closed.__code__.co_consts if hasattr(const, "co_code"))

COMMON: list[Refused] = [
    ("underflow", body("UNARY_NEGATIVE", *RETURN), {}, "pops 1 of 0"),
    ("overflow", body("LOAD_FAST 0", "LOAD_FAST 0", "POP_TOP", "RETURN_VALUE"), {"co_stacksize": 1},
     "depth 2 exceeds co_stacksize 1"),
    ("leftovers", body("LOAD_FAST 0", *RETURN), {}, "returns with 2"),
    ("falls off", body("LOAD_FAST 0"), {}, "falls off the end"),
    ("const", body("LOAD_CONST 5", "RETURN_VALUE"), {}, "co_consts index 5 is out of range"),
    ("name", body("LOAD_NAME 1", "RETURN_VALUE"), {}, "co_names index 1 is out of range"),
    ("global", body("LOAD_GLOBAL 2", "RETURN_VALUE"), {}, "co_names index above a flag bit 2"),
    ("local", body("LOAD_FAST 1", "RETURN_VALUE"), {}, "1 is out of range"),
    ("local as cell", body("LOAD_DEREF 0", "RETURN_VALUE"), {}, "slot 0 is not a cell or free"),
    ("no cell yet", body("LOAD_DEREF 0", "RETURN_VALUE"), {"co_cellvars": ("a",)},
     "before it holds a cell"),
    ("two cells", [("MAKE_CELL", 0), ("MAKE_CELL", 0), *body("LOAD_CONST 0", "RETURN_VALUE")],
     {"co_cellvars": ("a",)}, "already holds a cell"),
    ("no free variables", body(*RETURN), {"co_freevars": ("b",)}, "no COPY_FREE_VARS"),
    ("free variables", [("COPY_FREE_VARS", 2), *body(*RETURN)], {"co_freevars": ("b",)},
     "copies 2 of 1"),
    ("no RESUME", [("LOAD_FAST", 0), ("RETURN_VALUE", 0)], {}, "no RESUME"),
    ("early", [("LOAD_FAST", 0), *body("RETURN_VALUE")], {}, "not allowed before RESUME"),
    ("late", body("RETURN_GENERATOR", "RETURN_VALUE"), {}, "not allowed after RESUME"),
    ("operator", body("LOAD_FAST 0", "COPY 1", f"BINARY_OP {OPERATORS}", "RETURN_VALUE"), {},
     f"argument {OPERATORS}"),
    ("swap 1", body("LOAD_FAST 0", "SWAP 1", "RETURN_VALUE"), {}, "1 is out of range"),
    ("copy 0", body("LOAD_FAST 0", "COPY 0", "RETURN_VALUE"), {}, "0 is out of range"),
    ("deep copy", body("LOAD_FAST 0", "COPY 2", "RETURN_VALUE"), {}, "looks at 2 of 1"),
    ("jump out", body("JUMP_FORWARD 9", *RETURN), {}, "where no instruction begins"),
    ("jump into caches", body("JUMP_FORWARD 3", "LOAD_FAST 0", "LOAD_ATTR 0", "RETURN_VALUE"), {},
     "where no instruction begins"),
    ("jump past EXTENDED_ARG",
     body("JUMP_FORWARD 1", "EXTENDED_ARG 0", "LOAD_FAST 0", "RETURN_VALUE"), {},
     "where no instruction begins"),
    ("last EXTENDED_ARG", body("EXTENDED_ARG 1"), {}, "not an instruction"),
    ("stray cache", body("CACHE", *RETURN), {}, "not an instruction"),
    ("NULL used", body("PUSH_NULL", "UNARY_NEGATIVE", *RETURN), {}, "uses what is NULL"),
    ("NULL copied", body("PUSH_NULL", "COPY 1", "RETURN_VALUE"), {}, "is NULL, not an object"),
    ("NULL returned", body("PUSH_NULL", "RETURN_VALUE"), {}, "uses what is NULL"),
    ("list", body("LOAD_FAST 0", "COPY 1", "LIST_APPEND 1", "RETURN_VALUE"), {}, "not a list"),
    ("dict", body("LOAD_FAST 0", "COPY 1", "COPY 1", "MAP_ADD 1", "RETURN_VALUE"), {},
     "not a dict"),
    ("set", body("LOAD_FAST 0", "COPY 1", "SET_ADD 1", "RETURN_VALUE"), {}, "not a set"),
    ("code", body("LOAD_CONST 0", "MAKE_FUNCTION 0", "RETURN_VALUE"), {}, "not a code object"),
    ("reraise", body("LOAD_FAST 0", "RERAISE 0"), {}, "not an exception"),
    ("reraise's lasti", body(*RETURN, "LOAD_FAST 0", "SWAP 2", "RERAISE 1"),
     {"entries": [(0, 1, 3, 0, 0)]}, "not a lasti"),
    ("exception info", body("LOAD_FAST 0", "PUSH_EXC_INFO", "RETURN_VALUE"), {},
     "not an exception"),
    ("pop_except", body("LOAD_FAST 0", "POP_EXCEPT", *RETURN), {}, "previously handled exception"),
    ("still handling", body(*RETURN, "PUSH_EXC_INFO", "POP_TOP", "POP_TOP", *RETURN),
     {"entries": [(0, 1, 3, 0, 0)]}, "returns while handling 1"),
    ("yield", body("LOAD_FAST 0", "YIELD_VALUE", "RESUME 1", "RETURN_VALUE"), {},
     "does not belong to a generator"),
    ("generator flags", body(*RETURN), {"co_flags": 0x23}, "flags do not agree"),
    ("two kinds of generator", [("RETURN_GENERATOR", 0), ("POP_TOP", 0), *body(*RETURN)],
     {"co_flags": 0xA3}, "not exactly one"),
    ("yield without RESUME", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                              *body("LOAD_FAST 0", "YIELD_VALUE", "RETURN_VALUE")],
     {"co_flags": 0x23}, "must be followed by RESUME"),
    ("RESUME without yield", body("RESUME 2", *RETURN), {}, "does not follow YIELD_VALUE"),
    ("handler's depth", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 1, 0)]},
     "depth 0 is below its handler's 1"),
    ("handler's operands", body("LOAD_FAST 0", "LOAD_ATTR 0", "RETURN_VALUE", *HANDLER),
     {"entries": [(2, 3, 4, 1, 0)]}, "depth 1 is below its handler's 1"),
    ("handler's room", body(*RETURN, *HANDLER),
     {"entries": [(0, 2, 3, 0, 1)], "co_stacksize": 1}, "handler's stack depth 2 exceeds"),
    ("handler's lasti", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 0, 1)]}, "returns with 2"),
    ("overlap", body(*RETURN, *HANDLER), {"entries": [(0, 2, 3, 0, 0), (1, 2, 3, 0, 0)]},
     "bad range"),
    ("empty range", body(*RETURN, *HANDLER), {"entries": [(1, 1, 3, 0, 0)]}, "bad range"),
    ("handler at the end", body(*RETURN), {"entries": [(0, 1, 3, 0, 0)]}, "no instruction begins"),
    ("range past the end", body(*RETURN), {"co_exceptiontable": b"\x80\x04\x00\x00"}, "bad range"),
    ("table cut", body(*RETURN), {"co_exceptiontable": b"\x80\x01"}, "malformed number"),
    ("table start", body(*RETURN), {"co_exceptiontable": b"\x00\x01\x01\x00"}, "no entry begins"),
    ("line table short", body(*RETURN), {"co_linetable": b"\xe8\x00"}, "covers 1 of 3"),
    ("line table cut", body(*RETURN), {"co_linetable": b"\xea"}, "malformed entry"),
]  # fmt: skip

UNTIL_3_13: list[Refused] = [
    ("NULL popped", body("PUSH_NULL", "POP_TOP", *RETURN), {}, "uses what is NULL"),
    ("key tuple", body("LOAD_FAST 0", "COPY 1", "BUILD_CONST_KEY_MAP 1", "RETURN_VALUE"), {},
     "not a tuple"),
    ("key count", body("LOAD_FAST 0", "COPY 1", "LOAD_CONST 1", "BUILD_CONST_KEY_MAP 2",
                       "RETURN_VALUE"), {}, "keys are not known to be 2"),
]  # fmt: skip

UNTIL_3_12: list[Refused] = [
    ("jump to prologue", [("NOP", 0), *body("JUMP_BACKWARD 3")], {}, "leads into the prologue"),
    ("depth in a loop", body("LOAD_FAST 0", "JUMP_BACKWARD 2"), {}, "stack depth 1, another path"),
    ("no NULL", body("LOAD_FAST 0", "LOAD_FAST 0", "BUILD_TUPLE 0", "CALL_FUNCTION_EX 0",
                     "RETURN_VALUE"), {}, "slot 3 from the top is an object, not NULL"),
    ("keywords dropped", body("KW_NAMES 1", *RETURN), {}, "must be followed by the call"),
    ("closure", body("LOAD_FAST 0", "BUILD_TUPLE 1", "LOAD_CONST 2", "MAKE_FUNCTION 8",
                     "RETURN_VALUE"), {}, "not a tuple of cells"),
    ("closure's length",
     [("MAKE_CELL", 0), *body("LOAD_CLOSURE 0", "BUILD_TUPLE 1", "LOAD_CONST 2", "MAKE_FUNCTION 8",
                              "RETURN_VALUE")], {"co_cellvars": ("a",)}, "1 cells for 0 free"),
    ("annotations", body("LOAD_CONST 1", "LOAD_CONST 2", "MAKE_FUNCTION 4", "RETURN_VALUE"), {},
     "not known to be pairs"),
    ("yield from nothing", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                            *body("LOAD_FAST 0", "YIELD_VALUE", "RESUME 2", "RETURN_VALUE")],
     {"co_flags": 0x23}, "delegates to an iterator"),
]  # fmt: skip

ONLY_3_11: list[Refused] = [
    ("cell as local", [("MAKE_CELL", 0), *body(*RETURN)], {"co_cellvars": ("a",)},
     "slot 0 is not a plain local"),
    ("comparison", body("LOAD_FAST 0", "COPY 1", "COMPARE_OP 6", "RETURN_VALUE"), {}, "argument 6"),
    ("depths", body("LOAD_FAST 0", "POP_JUMP_FORWARD_IF_TRUE 1", "LOAD_FAST 0", *RETURN), {},
     "stack depth 1, another path with 0"),
    ("NULL stored", body("PUSH_NULL", "STORE_FAST 0", *RETURN), {}, "uses what is NULL"),
    ("method popped", body("LOAD_FAST 0", "LOAD_METHOD 0", "SWAP 2", "POP_TOP", "RETURN_VALUE"), {},
     "uses what is possibly NULL"),
    ("NULL called", body("LOAD_FAST 0", "PUSH_NULL", "PRECALL 0", "CALL 0", "RETURN_VALUE"), {},
     "slot 1 from the top is NULL"),
    ("NULL passed", body("PUSH_NULL", "LOAD_FAST 0", "PUSH_NULL", "PRECALL 1", "CALL 1",
                         "RETURN_VALUE"), {}, "slot 1 from the top is NULL"),
    ("NULL on one path",
     body("LOAD_FAST 0", "POP_JUMP_FORWARD_IF_TRUE 2", "PUSH_NULL", "JUMP_FORWARD 1",
          "LOAD_FAST 0", "RETURN_VALUE"), {}, "as an object"),
    ("precall", body("PUSH_NULL", "LOAD_FAST 0", "PRECALL 0", "NOP", "CALL 0", "RETURN_VALUE"), {},
     "must be followed by CALL"),
    ("precall's count", body("PUSH_NULL", "LOAD_FAST 0", "PRECALL 1", "CALL 0", "RETURN_VALUE"), {},
     "must be followed by CALL with the same"),
    ("keywords", body("PUSH_NULL", "LOAD_FAST 0", "KW_NAMES 1", "PRECALL 0", "CALL 0",
                      "RETURN_VALUE"), {}, "1 keywords for 0 arguments"),
    ("keyword names", body("PUSH_NULL", "LOAD_FAST 0", "COPY 1", "KW_NAMES 0", "PRECALL 1",
                           "CALL 1", "RETURN_VALUE"), {}, "not a tuple of names"),
    ("iterator", body("LOAD_FAST 0", "FOR_ITER 2", "POP_TOP", "JUMP_BACKWARD 3", *RETURN), {},
     "not an iterator"),
    ("class namespace", [("COPY_FREE_VARS", 1), *body("LOAD_CLASSDEREF 1", "RETURN_VALUE")],
     {"co_freevars": ("b",)}, "mapping of locals"),
]  # fmt: skip

SINCE_3_12: list[Refused] = [
    ("NULL stored", body("PUSH_NULL", "STORE_FAST 0", *RETURN), {}, "'a' may be unbound"),
    ("deleted", body("DELETE_FAST 0", *RETURN), {}, "'a' may be unbound"),
    ("cleared", body("LOAD_FAST_AND_CLEAR 0", *RETURN), {}, "'a' may be unbound"),
    ("cleared twice", body("LOAD_FAST_AND_CLEAR 0", "LOAD_FAST_AND_CLEAR 0", "RETURN_VALUE"), {},
     "uses what is possibly NULL"),
    ("local in the slot of a cell",
     [("MAKE_CELL", 0), *body("LOAD_CONST 0", "STORE_FAST 0", "LOAD_DEREF 0", "RETURN_VALUE")],
     CELL, "before it holds a cell"),
    ("depths", body("LOAD_CONST 4", "POP_JUMP_IF_TRUE 1", "LOAD_FAST 0", *RETURN), {},
     "stack depth 1, another path with 0"),
    ("method popped", body("LOAD_FAST 0", "LOAD_ATTR 1", "SWAP 2", "POP_TOP", "RETURN_VALUE"), {},
     "uses what is possibly NULL"),
    ("super's method popped", body("LOAD_FAST 0", "COPY 1", "COPY 1", "LOAD_SUPER_ATTR 1", "SWAP 2",
                                   "POP_TOP", "RETURN_VALUE"), {}, "uses what is possibly NULL"),
    ("super's name", body("LOAD_FAST 0", "COPY 1", "COPY 1", "LOAD_SUPER_ATTR 4", "RETURN_VALUE"),
     {}, "co_names index above two flag bits 4"),
    ("NULL on one path",
     body("LOAD_CONST 4", "POP_JUMP_IF_TRUE 2", "PUSH_NULL", "JUMP_FORWARD 1",
          "LOAD_FAST 0", "RETURN_VALUE"), {}, "as an object"),
    ("intrinsic", body("LOAD_FAST 0", "CALL_INTRINSIC_1 12", "RETURN_VALUE"), {}, "argument 12"),
    ("list for a tuple", body("LOAD_FAST 0", "CALL_INTRINSIC_1 6", "RETURN_VALUE"), {}, "not a list"),
    ("wrapped", body("LOAD_FAST 0", "CALL_INTRINSIC_1 4", "RETURN_VALUE"), {},
     "not an asynchronous generator"),
    ("no function", body("LOAD_FAST 0", "COPY 1", "CALL_INTRINSIC_2 4", "RETURN_VALUE"), {},
     "not a function"),
    ("thrown in", body("LOAD_FAST 0", "COPY 1", "COPY 1", "CLEANUP_THROW", "END_SEND",
                       "RETURN_VALUE"), {}, "not an exception"),
    ("mapping", body("LOAD_FAST 0", "LOAD_FROM_DICT_OR_DEREF 0", "RETURN_VALUE"), {},
     "slot 0 is not a cell or free"),
    ("end of delegation", body("LOAD_FAST 0", "COPY 1", "SEND 0", "END_FOR", *RETURN), {},
     "must jump to END_SEND"),
]  # fmt: skip

#: Only 3.12 and 3.13 have an instruction for it.
RETURNS_CONSTANTS: list[Refused] = [
    ("leftovers under a constant", body("LOAD_FAST 0", "RETURN_CONST 0"), {}, "returns with 2"),
]  # fmt: skip

ONLY_3_12: list[Refused] = [
    ("comparison", body("LOAD_FAST 0", "COPY 1", "COMPARE_OP 96", "RETURN_VALUE"), {},
     "argument 96"),
    ("NULL called", body("LOAD_FAST 0", "PUSH_NULL", "CALL 0", "RETURN_VALUE"), {},
     "slot 1 from the top is NULL"),
    ("NULL passed", body("PUSH_NULL", "LOAD_FAST 0", "PUSH_NULL", "CALL 1", "RETURN_VALUE"), {},
     "slot 1 from the top is NULL"),
    ("keywords", body("PUSH_NULL", "LOAD_FAST 0", "KW_NAMES 1", "CALL 0", "RETURN_VALUE"), {},
     "1 keywords for 0 arguments"),
    ("keyword names", body("PUSH_NULL", "LOAD_FAST 0", "COPY 1", "KW_NAMES 0", "CALL 1",
                           "RETURN_VALUE"), {}, "not a tuple of names"),
    ("iterator", body("LOAD_FAST 0", "FOR_ITER 2", "POP_TOP", "JUMP_BACKWARD 4", "END_FOR", *RETURN),
     {}, "not an iterator"),
    ("end of a loop", body("LOAD_FAST 0", "GET_ITER", "FOR_ITER 2", "POP_TOP", "JUMP_BACKWARD 4",
                           "POP_TOP", *RETURN), {}, "must jump to END_FOR"),
]  # fmt: skip

SINCE_3_13: list[Refused] = [
    ("comparison", body("LOAD_FAST 0", "COPY 1", "COMPARE_OP 192", "RETURN_VALUE"), {},
     "argument 192"),
    ("truth", body("LOAD_FAST 0", "POP_JUMP_IF_TRUE 0", *RETURN), {}, "not a bool"),
    ("truth of a comparison", body("LOAD_FAST 0", "COPY 1", "COMPARE_OP 72", "UNARY_NOT",
                                   "RETURN_VALUE"), {}, "not a bool"),
    ("NULL called", body("PUSH_NULL", "LOAD_FAST 0", "CALL 0", "RETURN_VALUE"), {},
     "slot 2 from the top is NULL"),
    ("NULL passed", body("LOAD_FAST 0", "PUSH_NULL", "PUSH_NULL", "CALL 1", "RETURN_VALUE"), {},
     "slot 1 from the top is NULL"),
    ("keywords", body("LOAD_FAST 0", "PUSH_NULL", "LOAD_CONST 1", "CALL_KW 0", "RETURN_VALUE"), {},
     "1 keywords for 0 arguments"),
    ("keyword names", body("LOAD_FAST 0", "PUSH_NULL", "LOAD_FAST 0", "LOAD_FAST 0", "CALL_KW 1",
                           "RETURN_VALUE"), {}, "not a tuple of names"),
    ("second slot", body("LOAD_FAST_LOAD_FAST 1", "BUILD_TUPLE 2", "RETURN_VALUE"), {},
     "slot 1 is out of range"),
    ("unbound second slot", body("DELETE_FAST 0", "LOAD_FAST_LOAD_FAST 0", "BUILD_TUPLE 2",
                                 "RETURN_VALUE"), {}, "slot 0 may be unbound"),
    ("closure missing", [("MAKE_CELL", 0), *body("LOAD_CONST 5", "MAKE_FUNCTION", "RETURN_VALUE")],
     {**CELL, "co_consts": (None, ("k",), 2, 3, 4, CLOSED)}, "as an object"),
    ("closure's length",
     [("MAKE_CELL", 0), *body("LOAD_FAST 0", "COPY 1", "BUILD_TUPLE 2", "LOAD_CONST 5",
                              "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE 8", "RETURN_VALUE")],
     {**CELL, "co_consts": (None, ("k",), 2, 3, 4, CLOSED)}, "2 cells for 1 free"),
    ("closure", body("LOAD_FAST 0", "LOAD_CONST 2", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE 8",
                     "RETURN_VALUE"), {}, "not a tuple of cells"),
    ("annotations", body("LOAD_CONST 1", "LOAD_CONST 2", "MAKE_FUNCTION",
                         "SET_FUNCTION_ATTRIBUTE 4", "RETURN_VALUE"), {}, "not known to be pairs"),
    ("jump to prologue", [("NOP", 0), *body("JUMP_BACKWARD 4")], {}, "leads into the prologue"),
    ("depth in a loop", body("LOAD_FAST 0", "JUMP_BACKWARD 3"), {}, "stack depth 1, another path"),
    ("yield from nothing", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                            *body("LOAD_FAST 0", "YIELD_VALUE 1", "RESUME 2", "RETURN_VALUE")],
     {"co_flags": 0x23}, "delegates to an iterator"),
    ("yield's delegation", [("RETURN_GENERATOR", 0), ("POP_TOP", 0),
                            *body("LOAD_FAST 0", "YIELD_VALUE 1", "RESUME 1", "RETURN_VALUE")],
     {"co_flags": 0x23}, "does not agree with its RESUME"),
]  # fmt: skip

ONLY_3_13: list[Refused] = [
    ("iterator", body("LOAD_FAST 0", "FOR_ITER 3", "POP_TOP", "JUMP_BACKWARD 5", "END_FOR",
                      "POP_TOP", *RETURN), {}, "not an iterator"),
    ("end of a loop", body("LOAD_FAST 0", "GET_ITER", "FOR_ITER 3", "POP_TOP", "JUMP_BACKWARD 5",
                           "END_FOR", *RETURN), {}, "must jump to END_FOR and POP_TOP"),
    ("no NULL", body("LOAD_FAST 0", "LOAD_FAST 0", "BUILD_TUPLE 0", "CALL_FUNCTION_EX 0",
                     "RETURN_VALUE"), {}, "slot 2 from the top is an object, not NULL"),
]  # fmt: skip

ONLY_3_14: list[Refused] = [
    ("iterator", body("LOAD_FAST 0", "FOR_ITER 3", "POP_TOP", "JUMP_BACKWARD 5", "END_FOR",
                      "POP_ITER", *RETURN), {}, "not an iterator"),
    ("end of a loop", body("LOAD_FAST 0", "GET_ITER", "FOR_ITER 3", "POP_TOP", "JUMP_BACKWARD 5",
                           "END_FOR", "POP_TOP", *RETURN), {}, "must jump to END_FOR and POP_ITER"),
    ("no NULL", body("LOAD_FAST 0", "LOAD_FAST 0", "BUILD_TUPLE 0", "PUSH_NULL", "CALL_FUNCTION_EX",
                     "RETURN_VALUE"), {}, "slot 3 from the top is an object, not NULL"),
    ("lender stored", body("LOAD_FAST_BORROW 0", "LOAD_CONST 0", "STORE_FAST 0", "RETURN_VALUE"),
     {}, "slot 0 changes while it lends"),
    ("lender deleted", body("LOAD_FAST_BORROW 0", "DELETE_FAST 0", "RETURN_VALUE"), {},
     "slot 0 changes while it lends"),
    ("lender of a copy", body("LOAD_FAST_BORROW 0", "COPY 1", "STORE_FAST 0", "RETURN_VALUE"), {},
     "slot 0 changes while it lends"),
    ("two lenders", body("LOAD_FAST_BORROW_LOAD_FAST_BORROW 0", "STORE_FAST_STORE_FAST 0",
                         "LOAD_FAST_BORROW 0", "LOAD_FAST 0", "STORE_FAST_LOAD_FAST 0",
                         "RETURN_VALUE"), {}, "slot 0 changes while it lends"),
    ("borrowed for long", body("LOAD_FAST_BORROW 0", "JUMP_FORWARD 0", "RETURN_VALUE"), {},
     "outlives its straight-line code"),
    ("unbound lender", body("DELETE_FAST 0", "LOAD_FAST_BORROW 0", "RETURN_VALUE"), {},
     "'a' may be unbound"),
    ("special method", body("LOAD_FAST 0", "LOAD_SPECIAL 4", "CALL 0", "RETURN_VALUE"), {},
     "argument 4"),
    ("special method's self", body("LOAD_FAST 0", "LOAD_SPECIAL 0", "RETURN_VALUE"), {},
     "uses what is possibly NULL"),
    ("common constant", body("LOAD_COMMON_CONSTANT 5", "RETURN_VALUE"), {}, "argument 5"),
    ("template", body("LOAD_CONST 1", "LOAD_FAST 0", "BUILD_TEMPLATE", "RETURN_VALUE"), {},
     "not a tuple"),
    ("interpolation", body("LOAD_FAST 0", "LOAD_FAST 0", "BUILD_INTERPOLATION 3", "RETURN_VALUE"),
     {}, "pops 3 of 2"),
    ("annotations with a closure",
     [("MAKE_CELL", 0), *body("LOAD_FAST 0", "LOAD_CONST 5", "MAKE_FUNCTION",
                              "SET_FUNCTION_ATTRIBUTE 16", "RETURN_VALUE")],
     {**CELL, "co_consts": (None, ("k",), 2, 3, 4, CLOSED)}, "not a function"),
]  # fmt: skip

BY_VERSION = {
    (3, 11): UNTIL_3_13 + UNTIL_3_12 + ONLY_3_11,
    (3, 12): UNTIL_3_13 + UNTIL_3_12 + SINCE_3_12 + RETURNS_CONSTANTS + ONLY_3_12,
    (3, 13): UNTIL_3_13 + SINCE_3_12 + RETURNS_CONSTANTS + SINCE_3_13 + ONLY_3_13,
    (3, 14): SINCE_3_12 + SINCE_3_13 + ONLY_3_14,
}

REFUSED = COMMON + BY_VERSION.get(sys.version_info[:2], [])
