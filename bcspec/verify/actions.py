"""Stack work that depends on the kinds met, shared by the version tables.

An action runs after the slots that its instruction reads were checked; it does all the pops and
pushes.  A static check looks at an instruction and its neighbours before interpretation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from . import kinds as k
from .decode import Wordcode, takes_iterator
from .interp import Machine
from .model import Action
from .prepare import FREE

#: The flags of a code object that say what kind of generator it makes.
GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x200
_OPTIMIZED = 0x1


# -- moving values ------------------------------------------------------------------------


def copy(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a second reference to the slot at depth `arg`."""
    kind = stack[-arg]
    # Two references to one list could be filled differently: no longer trust its elements.
    if kind == k.EXC_LIST:
        kind = stack[-arg] = k.LIST
    stack.append(kind)


def swap(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Exchange the top with the slot at depth `arg`."""
    stack[-1], stack[-arg] = stack[-arg], stack[-1]


def load_const(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a constant: tuples and code objects are told apart."""
    const = m.code.co_consts[arg]
    kind = k.VALUE
    if type(const) is tuple:
        kind = k.tuple_of(len(const))
    elif type(const) is type(m.code):
        kind = k.CODE | arg << k.SHIFT
    elif type(const) is bool:
        kind = k.BOOL
    stack.append(kind)


# -- locals and cells ---------------------------------------------------------------------


def load_fast(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a local."""
    unchecked = m.prepared.unchecked
    if unchecked and m.words.ops[index] in unchecked and not m.bits >> arg + 1 & 1:
        m.fail(f"local {m.code.co_varnames[arg]!r} may be unbound here")
    stack.append(m.env.get(arg, k.VALUE))


def store_fast(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Bind a local."""
    kind = stack.pop()
    m.bind(arg, k.LIST if kind == k.EXC_LIST else kind)


def load_fast_check(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a local that may be unbound; afterwards it is not."""
    m.bits |= 2 << arg
    stack.append(m.env.get(arg, k.VALUE))


def load_fast_and_clear(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Move what a slot holds, if anything, to the stack."""
    stack.append(m.env.get(arg, k.VALUE) if m.bits >> arg + 1 & 1 else k.MAYBE)
    m.bits &= ~(2 << arg)
    m.forget(arg)


def store_fast_maybe_null(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Fill a slot, perhaps with NULL."""
    kind = stack.pop()
    if kind & k.NULLS:
        m.bits &= ~(2 << arg)
        m.forget(arg)
    else:
        m.bind(arg, k.LIST if kind == k.EXC_LIST else kind)


def delete_fast(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Unbind a local."""
    m.bits &= ~(2 << arg)
    m.forget(arg)


def make_cell(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Put a cell into its slot, once."""
    if m.env.get(arg) == k.CELL and m.words.slots[arg] != FREE:
        m.fail(f"slot {arg} already holds a cell")
    m.hold_cell(arg)


def load_cell(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a cell itself."""
    m.require_cell(arg)
    stack.append(k.CELL)


def load_deref(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push what a cell holds."""
    m.require_cell(arg)
    stack.append(k.VALUE)


def store_deref(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Fill a cell."""
    m.require_cell(arg)
    stack.pop()


def delete_deref(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Empty a cell."""
    m.require_cell(arg)


def copy_free_vars(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The function's closure goes into the free slots."""
    if arg != len(m.code.co_freevars):
        m.fail(f"copies {arg} of {len(m.code.co_freevars)} free variables")
    for slot, bits in enumerate(m.words.slots):
        if bits == FREE:
            m.hold_cell(slot)


def load_classderef(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push a class body's name, or what the cell holds."""
    namespace(m, stack, index, arg)
    load_deref(m, stack, index, arg)


def load_from_dict_or_deref(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The mapping on top gives way to what it, or the cell, holds."""
    stack.pop()
    load_deref(m, stack, index, arg)


def namespace(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Only frames of module and class bodies have a mapping of locals."""
    if m.code.co_flags & _OPTIMIZED:
        m.fail("needs a frame with a mapping of locals")


# -- containers and functions -----------------------------------------------------------


def build_tuple(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Tuples of cells may become closures."""
    items = stack[len(stack) - arg :]
    del stack[len(stack) - arg :]
    cells = arg and all(kind == k.CELL for kind in items)
    stack.append(k.CELLS | arg << k.SHIFT if cells else k.tuple_of(arg))


def build_const_key_map(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """As many keys as values."""
    if stack[-1] != k.tuple_of(arg):
        m.fail(f"the keys are not known to be {arg}")
    del stack[-arg - 1 :]
    stack.append(k.DICT)


def list_append(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Append the top to the list at depth `arg` below it."""
    item = stack.pop()
    if stack[-arg] == k.EXC_LIST and not item & k.EXCS:
        stack[-arg] = k.LIST


def list_extend(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Nothing is known of the elements that come in."""
    stack.pop()
    if stack[-arg] == k.EXC_LIST:
        stack[-arg] = k.LIST


def function_of(code: CodeType) -> int:
    """The kind of a function with this code; that of a generator expression gives an iterator."""
    generates = bool(code.co_flags & GENERATOR)
    return k.ITERATES | generates << k.SHIFT if takes_iterator(code) else k.FUNCTION


def make_function(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Closure as long as the code's free variables; annotations in pairs."""
    code = m.code.co_consts[stack.pop() >> k.SHIFT]
    cells = stack.pop() >> k.SHIFT if arg & 8 else 0
    if cells != len(code.co_freevars):
        m.fail(f"a closure of {cells} cells for {len(code.co_freevars)} free variables")
    if arg & 4:
        length = (stack.pop() >> k.SHIFT) - 1
        if length < 0 or length % 2:
            m.fail("annotations are not known to be pairs")
    for flag in (2, 1):
        if arg & flag:
            stack.pop()
    stack.append(function_of(code))


def make_bare_function(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """MAKE_FUNCTION without attributes: a closure, if the code needs one, is set next."""
    number = stack.pop() >> k.SHIFT
    code = m.code.co_consts[number]
    if code.co_freevars:
        stack.append(k.UNCLOSED | number << k.SHIFT)
    else:
        stack.append(function_of(code))


def set_function_attribute(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The function on top gets what is below it."""
    function = stack.pop()
    attribute = stack.pop()
    if arg == 8:
        code = m.code.co_consts[function >> k.SHIFT]
        cells = attribute >> k.SHIFT
        if cells != len(code.co_freevars):
            m.fail(f"a closure of {cells} cells for {len(code.co_freevars)} free variables")
        function = function_of(code)
    elif arg == 4 and ((attribute >> k.SHIFT) - 1) % 2:
        m.fail("annotations are not known to be pairs")
    stack.append(function)


def call_null_after(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """A callable, NULL or its first argument, then arguments."""
    first = len(stack) - arg - 2
    rest = stack[first + 1 :]
    argument = rest[1:2] if rest[0] == k.NULL else rest[:1]
    callee = stack[first]
    if rest[0] & k.RESTRICTED or (callee & k.ITERATES and argument != [k.ITER]):
        m.fail("a comprehension's function is called without an iterator")
    del stack[first:]
    stack.append(k.ITER if callee & k.ITERATES and callee >> k.SHIFT else k.VALUE)


def call_kw(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """CALL_KW: the names are on top."""
    stack.pop()
    call_null_after(m, stack, index, arg)


def compare_for_truth(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """COMPARE_OP gives a bool when asked to, and for the length that a pattern compares."""
    del stack[-2:]
    words = m.words
    number = words.args[index - 1] if words.name(index - 1) == "LOAD_CONST" else -1
    of_length = (
        number >= 0
        and type(m.code.co_consts[number]) is int
        and words.name(index - 2) == "GET_LEN"
        and not (words.joins[index] or words.joins[index - 1])
    )
    stack.append(k.BOOL if arg & 16 or of_length else k.VALUE)


def two_slots(*rules: Action) -> Action:
    """An instruction on two plain locals or cells, numbered in the halves of its argument."""

    def action(m: Machine, stack: list[int], index: int, arg: int) -> None:
        for slot, rule in zip((arg >> 4, arg & 15), rules, strict=True):
            if slot >= len(m.words.slots):
                m.fail(f"slot {slot} is out of range")
            if rule is store_fast_maybe_null:
                if not stack or stack[-1] & k.RESTRICTED:
                    m.fail("stores what may not be stored")
            elif m.prepared.unchecked and not m.bits >> slot + 1 & 1:
                m.fail(f"slot {slot} may be unbound here")
            rule(m, stack, index, slot)

    return action


def push_slot(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Push what a slot that is known to be bound holds."""
    stack.append(m.env.get(arg, k.VALUE))


def call(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """A comprehension's function trusts its argument to be an iterator."""
    first = len(stack) - arg - 2
    callee = first + 1 if stack[first] == k.NULL else first
    misplaced = callee == first and stack[first + 1] & k.ITERATES
    if misplaced or (stack[callee] & k.ITERATES and stack[callee + 1 : callee + 2] != [k.ITER]):
        m.fail("a comprehension's function is called without an iterator")
    del stack[first:]
    stack.append(k.VALUE)


# -- exceptions, generators, ends -------------------------------------------------------------


def push_exc_info(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The exception on top becomes the one being handled."""
    stack[-1:] = (k.PREV, k.EXC)
    m.handled += 1


def pop_except(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Back to the exception handled before."""
    if not m.handled:
        m.fail("no exception is being handled")
    stack.pop()
    m.handled -= 1


def none_test(taken_when_none: bool) -> Action:
    """POP_JUMP_IF_NONE and its opposite; a value known not to be None becomes an exception."""

    def action(m: Machine, stack: list[int], index: int, arg: int) -> None:
        stack.pop()
        words = m.words
        copied = index > 0 and not words.joins[index] and words.args[index - 1] == 1
        copied = copied and words.ops[index - 1] == m.prepared.copy
        if copied and stack[-1] == k.EXC_OR_NONE:
            known = [*stack[:-1], k.EXC]
            m.flow(words.targets[index], stack if taken_when_none else known)
            if taken_when_none:
                stack[-1] = k.EXC
        else:
            m.flow(words.targets[index], stack)

    return action


def return_generator(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The frame moves into a generator; when resumed, the value sent is on its stack."""
    flags = m.code.co_flags & (GENERATOR | COROUTINE | ASYNC_GENERATOR)
    if flags not in (GENERATOR, COROUTINE, ASYNC_GENERATOR):
        m.fail("not exactly one of the generator flags is set")
    if stack:
        m.fail("the stack is not empty")
    m.bits |= 1
    stack.append(k.VALUE)


def yield_value(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Only a generator's frame can be left and entered again."""
    if not m.bits & 1:
        m.fail("the frame does not belong to a generator")
    stack[-1] = k.VALUE
    words = m.words
    delegates = index + 1 < len(words.ops) and words.args[index + 1] & 3 >= 2
    if delegates and (len(stack) < 2 or stack[-2] & k.NULLS):
        m.fail("delegates to an iterator, but there is none on the stack")


def async_gen_wrap(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Wrap what an asynchronous generator yields."""
    if not m.code.co_flags & ASYNC_GENERATOR:
        m.fail("not an asynchronous generator")
    stack[-1] = k.WRAPPED


def return_const(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """Returns a constant."""
    stack.append(k.VALUE)
    return_value(m, stack, index, arg)
    stack.pop()


def return_value(m: Machine, stack: list[int], index: int, arg: int) -> None:
    """The value is all there is, and no exception is still being handled."""
    if len(stack) != 1:
        m.fail(f"returns with {len(stack)} slots on the stack")
    if m.handled:
        m.fail(f"returns while handling {m.handled} exceptions")


# -- static checks ------------------------------------------------------------------------


def followed_by(name: str) -> Callable[[Wordcode, int], None]:
    """The next instruction is `name`."""

    def check(words: Wordcode, index: int) -> None:
        if words.name(index + 1) != name:
            words.fail(index, f"must be followed by {name}")

    return check


def lands_on(*names: str) -> Callable[[Wordcode, int], None]:
    """The jump leads to these instructions, one after the other."""

    def check(words: Wordcode, index: int) -> None:
        target = words.targets[index]
        found = tuple(words.name(target + offset) for offset in range(len(names)))
        if found != names:
            words.fail(index, f"must jump to {' and '.join(names)}")

    return check


def yields(words: Wordcode, index: int) -> None:
    """YIELD_VALUE says, like the RESUME after it, whether it delegates."""
    followed_by("RESUME")(words, index)
    if words.args[index] != (words.args[index + 1] & 3 >= 2):
        words.fail(index, "does not agree with its RESUME")


def resume(words: Wordcode, index: int) -> None:
    """A suspended generator is asked for its delegate by the RESUME after its YIELD_VALUE."""
    if words.args[index] & 3 and words.name(index - 1) != "YIELD_VALUE":
        words.fail(index, "does not follow YIELD_VALUE")


def async_gen_intrinsic(words: Wordcode, index: int) -> None:
    """CALL_INTRINSIC_1: number 4 wraps what an asynchronous generator yields."""
    if words.args[index] == 4 and not words.code.co_flags & ASYNC_GENERATOR:
        words.fail(index, "not an asynchronous generator")


def keyword_names(words: Wordcode, index: int) -> None:
    """KW_NAMES: a tuple of names for the call right after it."""
    names = words.code.co_consts[words.args[index]]
    if type(names) is not tuple or not all(type(name) is str for name in names):
        words.fail(index, "not a tuple of names")
    if words.name(index + 1) not in ("PRECALL", "CALL"):
        words.fail(index, "must be followed by the call")
    if words.args[index + 1] < len(names):
        words.fail(index, f"{len(names)} keywords for {words.args[index + 1]} arguments")


def names_on_top(words: Wordcode, index: int) -> None:
    """CALL_KW: the tuple of names is loaded right before it."""
    before = index - 1
    loaded = words.name(before) == "LOAD_CONST" and not words.joins[index]
    names = words.code.co_consts[words.args[before]] if loaded else None
    if type(names) is not tuple or not all(type(name) is str for name in names):
        words.fail(index, "not a tuple of names")
    if words.args[index] < len(names):
        words.fail(index, f"{len(names)} keywords for {words.args[index]} arguments")


def precall(words: Wordcode, index: int) -> None:
    """PRECALL may do the call itself and skip the CALL, so they must match."""
    after = index + 1
    if words.name(after) != "CALL" or words.args[after] != words.args[index]:
        words.fail(index, "must be followed by CALL with the same argument")
    if words.handlers[after] is not words.handlers[index]:
        words.fail(index, "has another handler than its CALL")
    if words.args[after] < 256 and words.starts[after] != words.ends[after] - words.width(after):
        words.fail(index, "its CALL has a needless EXTENDED_ARG")
