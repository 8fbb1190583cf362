"""What a code object must keep when nothing in it was specialised."""

from __future__ import annotations

import dis
from types import CodeType

#: Attributes that stay exactly as they were, whatever is evaluated.
_FACE = (
    "co_name",
    "co_qualname",
    "co_filename",
    "co_firstlineno",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_freevars",
)

#: And these when nothing is evaluated.
_SAME = (*_FACE, "co_varnames", "co_cellvars")


#: After these control does not go on to the next instruction.
_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})

#: These never raise, so a handler is not reached from them.
_QUIET = frozenset(
    "NOP CACHE EXTENDED_ARG LOAD_CONST STORE_FAST POP_TOP COPY SWAP PUSH_NULL JUMP_FORWARD "
    "PUSH_EXC_INFO POP_EXCEPT".split()
)


def _goes_on(opname: str) -> bool:
    conditional = "IF" in opname.split("_")
    return opname not in _ENDS and (conditional or not opname.startswith("JUMP"))


def reachable(code: CodeType) -> list[dis.Instruction]:
    """The instructions that control can reach, exceptions included, in their order.

    Args:
        code: a code object; the compiler leaves some dead instructions in.
    """
    decoded = dis.Bytecode(code)
    entries = decoded.exception_entries  # type: ignore[attr-defined]
    instructions = list(decoded)
    index_at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    seen: set[int] = set()
    pending = [0]
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        instruction = instructions[index]
        offset = instruction.offset
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            pending.append(index_at[instruction.argval])
        if _goes_on(instruction.opname):
            pending.append(index + 1)
        if instruction.opname not in _QUIET:
            pending.extend(
                index_at[entry.target] for entry in entries if entry.start <= offset < entry.end
            )
    return [instructions[index] for index in sorted(seen)]


def _reachable_names(code: CodeType) -> set[str]:
    return {i.argval for i in reachable(code) if i.opcode in dis.hasname}


def _reachable_lines(code: CodeType) -> set[int | None]:
    return {i.positions.lineno for i in reachable(code) if i.positions is not None}


def _lines(code: CodeType) -> set[int | None]:
    return {line for _, _, line in code.co_lines()}


def _constants(code: CodeType) -> set[tuple[type, str]]:
    """Constants by type and text: `1`, `True` and `1.0`, or `0.0` and `-0.0`, are different."""
    return {
        (type(constant), hex(id(constant)) if isinstance(constant, CodeType) else repr(constant))
        for constant in code.co_consts
    }


def _docstring(code: CodeType) -> object:
    return code.co_consts[0] if code.co_consts else None


def _positions(code: CodeType) -> set[tuple[int | None, int | None, int | None, int | None]]:
    return set(code.co_positions())


def _changed(old: CodeType, new: CodeType, names: tuple[str, ...]) -> list[str]:
    return [
        f"{name}: {getattr(old, name)!r} became {getattr(new, name)!r}"
        for name in names
        if getattr(old, name) != getattr(new, name)
    ]


def face_differences(old: CodeType, new: CodeType) -> list[str]:
    """How `new`, made from `old` by evaluating, differs in what others see of a function.

    Args:
        old: the code object that went in.
        new: the code object that came out.

    Returns:
        One text per difference, naming the attribute first; empty when all is well.
    """
    found = _changed(old, new, _FACE)
    if None in _lines(new) and None not in _lines(old):
        found.append("co_lines gained None")
    return found


def differences(old: CodeType, new: CodeType) -> list[str]:
    """How `new`, made from `old` without evaluating, differs where it must not.

    Args:
        old: the code object that went in.
        new: the code object that came out.

    Returns:
        One text per difference, naming the attribute first; empty when all is well.
    """
    found = _changed(old, new, _SAME)
    if more_names := set(new.co_names) - set(old.co_names):
        found.append(f"co_names gained: {sorted(more_names)}")
    if set(old.co_names) - set(new.co_names) and (
        lost_names := _reachable_names(old) - set(new.co_names)
    ):
        found.append(f"co_names lost: {sorted(lost_names)}")
    if gained := _constants(new) - _constants(old):
        found.append(f"co_consts gained: {sorted(text for _, text in gained)}")
    if isinstance(_docstring(old), str) and _docstring(old) != _docstring(new):
        found.append(f"docstring: {_docstring(old)!r} became {_docstring(new)!r}")
    old_lines, new_lines = _lines(old), _lines(new)
    if None in new_lines and None not in old_lines:
        found.append("co_lines gained None")
    # Dead instructions may go: the slow look at what is alive is for the rare case.
    if old_lines - new_lines - {None} and (lost := _reachable_lines(old) - new_lines - {None}):
        found.append(f"co_lines lost: {sorted(filter(None, lost))}")
    if more := new_lines - old_lines - {None}:
        found.append(f"co_lines gained: {sorted(filter(None, more))}")
    if extra := _positions(new) - _positions(old):
        found.append(f"co_positions gained: {len(extra)}, such as {next(iter(extra))}")
    return found
