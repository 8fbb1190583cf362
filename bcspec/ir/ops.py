"""The table of IR operations.

Rules that every operation obeys:

* Operands and results are listed from the bottom of the operand stack to its top.
* A value is *linear*: it is defined once and consumed exactly once on every path.
  The first ``keeps`` operands of an operation are only looked at and stay alive;
  the others are consumed.  ``copy`` makes a second reference, ``drop`` lets go of one.
* An operation with ``raises`` may run arbitrary code or raise; when it raises, control
  goes to the handler of its block (or leaves the function).
* An operation that is ``pure`` may be deleted when its result is only dropped.
* Local variables, cells and names are addressed by name in ``Op.arg``.

Names are independent of the CPython version; `bcspec.lift` and `bcspec.lower` hold the
only tables that translate them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpSpec:
    """What is known of one operation.

    ``pops`` counts operands (None: any number); ``keeps`` how many of them, from the
    left, stay alive; ``pushes`` counts results (None: any number).
    """

    name: str
    pops: int | None
    pushes: int | None
    keeps: int = 0
    raises: bool = True
    pure: bool = False
    terminator: bool = False


def _table() -> dict[str, OpSpec]:
    specs: list[OpSpec] = []

    def ops(names: str, pops: int | None, pushes: int | None, **flags: int | bool) -> None:
        specs.extend(OpSpec(name, pops, pushes, **flags) for name in names.split())  # type: ignore[arg-type]

    # Moving values about: no effect, no exception.
    ops("const null load load_closure", 0, 1, raises=False, pure=True)
    ops("copy", 1, 1, keeps=1, raises=False, pure=True)
    ops("store", 1, 0, raises=False)
    ops("delete clear nop", 0, 0, raises=False)
    ops("resume", 0, 0)  # after a yield; signals are noticed there
    ops("drop", 1, 0, raises=False)
    # Variables.  `load_check` and `delete_check` raise when the local is unbound.
    ops("load_check", 0, 1)
    ops("delete_check delete_deref delete_global delete_name setup_annotations", 0, 0)
    ops("load_deref load_classderef load_global load_name", 0, 1)
    ops("store_deref", 1, 0, raises=False)
    ops("store_global store_name import_star print_expr delete_attr", 1, 0)
    ops("load_build_class load_assertion_error", 0, 1, raises=False)
    ops("load_common_constant", 0, 1, raises=False, pure=True)  # a builtin, by its first name
    # A comprehension in the frame around it: `load_clear` takes a local that may be unbound off its
    # slot (the result may be NULL, and `store` puts it back); the same for a whole cell.
    ops("load_clear load_clear_cell", 0, 1, raises=False)
    ops("store_cell", 1, 0, raises=False)
    ops("make_cell drop_cell", 0, 0, raises=False)
    # Names in class bodies and annotation scopes: the mapping, and reading through it.
    ops("load_locals", 0, 1)
    ops("load_from_dict_or_globals load_from_dict_or_deref", 1, 1)
    # Attributes and items.
    ops("load_attr", 1, 1)
    ops("load_method", 1, 2)
    # `super`, class, instance; arg is the name, and whether the call had arguments in the source.
    ops("load_super_attr", 3, 1)
    ops("load_super_method", 3, 2)
    ops("store_attr delete_subscr", 2, 0)
    ops("binary_op binary_subscr compare_op is_op contains_op import_name", 2, 1)
    ops("store_subscr", 3, 0)
    ops("unary_negative unary_positive unary_not unary_invert", 1, 1)
    # Containers.
    ops("build_tuple build_list", None, 1)
    ops("build_set build_map build_string build_slice build_const_key_map", None, 1)
    ops("list_to_tuple", 1, 1)
    ops("list_append list_extend set_add set_update dict_update", 2, 0, keeps=1)
    ops("map_add", 3, 0, keeps=1)
    ops("dict_merge", 4, 0, keeps=3)  # callable, arguments, keywords; update
    ops("unpack_sequence unpack_ex", 1, None)
    ops("format_value", None, 1)
    ops("convert_value to_bool", 1, 1)
    # Template strings: value, text of the expression and, if the flags say so, a format; the
    # tuple of strings, the tuple of interpolations.
    ops("build_interpolation", None, 1)
    ops("build_template", 2, 1)
    # Pattern matching.
    ops("get_len match_mapping match_sequence import_from", 1, 1, keeps=1)
    ops("match_keys", 2, 1, keeps=2)
    ops("match_class", 3, 1)
    # Iteration, generators, coroutines.
    ops("get_iter get_yield_from_iter get_aiter get_awaitable", 1, 1)
    ops("get_anext", 1, 1, keeps=1)
    # `yield_value` and `resume` carry what the interpreter notes about handlers around them.
    ops("yield_value async_gen_wrap", 1, 1)
    ops("cleanup_throw", 2, 1)  # iterator, exception thrown in -> the value of a StopIteration
    ops("stopiteration_error", 1, 1)
    ops("end_async_for", 2, 0)
    # Context managers and exceptions.
    ops("before_with before_async_with", 1, 2)
    # A method that the interpreter looks up on the class: the two slots of a callable.
    ops("load_special", 1, 2)
    # The exit method (one value, or the two slots of a callable), lasti, previous, exception: all kept.
    ops("with_except_start", None, 1)
    ops("push_exc_info", 1, 2, raises=False)  # exception -> previous, exception
    ops("pop_except", 1, 0, raises=False)
    ops("check_exc_match", 2, 1, keeps=1)
    ops("check_eg_match", 2, 2)
    ops("prep_reraise_star", 2, 1)
    # Type parameters.
    ops("typevar paramspec typevartuple subscript_generic typealias", 1, 1)
    ops("typevar_with_bound typevar_with_constraints set_function_type_params", 2, 1)
    ops("set_typeparam_default", 2, 1)
    # Calls.  `call` takes the two slots of a callable as the interpreter lays them out
    # (one of them may be `null`) and the arguments; arg is the tuple of keyword names.
    ops("call call_ex make_function", None, 1)
    # Terminators.
    # A jump back is where the interpreter notices signals: KeyboardInterrupt comes from there.
    ops("jump", 0, 0, terminator=True)
    ops("branch", 1, 0, terminator=True)  # arg: true, false, none, not_none
    ops("for_iter", 1, 1, keeps=1, terminator=True)  # edges: body, exhausted
    ops("send", 2, 1, keeps=1, terminator=True)  # edges: suspended, finished
    ops("return_value", 1, 0, raises=False, terminator=True)
    ops("raise_varargs", None, 0, terminator=True)
    ops("reraise", None, 0, terminator=True)  # [lasti,] exception; lasti is kept
    return {spec.name: spec for spec in specs}


OPS: dict[str, OpSpec] = _table()

#: What `binary_op` takes as its argument, in the order of the interpreter's numbering
#: (CPython, ``Include/opcode.h``); the forms with ``=`` work in place.
BINARY_OPERATORS: list[str] = "+ & // << @ * % | ** >> - / ^".split()
BINARY_OPERATORS += [f"{operator}=" for operator in BINARY_OPERATORS]

#: Bits of the argument of `make_function`, in the order of the operands that they stand for: defaults,
#: keyword-only defaults, annotations, the function that gives annotations; the closure.
FUNCTION_PARTS = (1, 2, 4, 16)
CLOSURE = 8

TERMINATORS: frozenset[str] = frozenset(name for name, spec in OPS.items() if spec.terminator)
