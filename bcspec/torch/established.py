"""What Dynamo's guards have established about tensors, and which calls that makes needless.

A frame runs only where the guards of its cache entry hold.  For each tensor these compare class, dispatch
keys, size and stride with what was seen at compile time; Inductor's generated code asks for size and
stride of its inputs again, and the autograd function whether they are dead functorch wrappers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..evaluate import Residual
from ..knowledge import Established
from . import internals
from .calls import Shape


@dataclass(frozen=True)
class TensorFact:
    """What one guard compares.

    Attributes:
        size, stride: in elements, None for a dimension that varies.
        plain: the class is exactly `torch.Tensor`.
        wrapped: some dispatch key is one of functorch.
    """

    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    plain: bool
    wrapped: bool

    def describes(self, value: Any) -> bool:
        """Whether the fact is true of a tensor for which the guard holds: its text was read right."""
        return (type(value) is internals.tensor()) == self.plain and all(
            len(known) == len(found) and all(a in (None, b) for a, b in zip(known, found))
            for known, found in ((self.size, value.shape), (self.stride, value.stride()))
        )

    def asserts(self, size: Any, stride: Any, *_: Any) -> bool:
        """Whether `assert_size_stride` of a tensor that passed the guard cannot fail.

        Stride does not matter where there is one element (`torch/csrc/dynamo/guards.cpp`).
        """
        return (
            type(size) is type(stride) is tuple
            and self.size == size
            and len(stride) == len(size)
            and all(n == 1 or a == b for n, a, b in zip(size, self.stride, stride, strict=True))
        )


def tensor_facts(root: Any) -> dict[str, TensorFact]:
    """What the guards compare, by the source of the tensor as Dynamo names it (``L['x']``).

    Args:
        root: the root of the guards of a cache entry.

    Returns:
        The facts; nothing about a guard whose text is not as expected.
    """
    found = {}
    managers = [root]
    for manager in managers:
        managers += manager.get_child_managers()
        source = manager.get_source()
        for guard in manager.get_leaf_guards():
            if type(guard).__name__ == "TENSOR_MATCH":
                fact = fact_of(source, guard.verbose_code_parts())
                if fact is not None:
                    found[source] = fact
    return found


_GUARD = re.compile(
    r"(?P<cls>\w+), DispatchKeySet\((?P<keys>[\w, ]*)\), torch\.\w+, device=\w+, requires_grad=\w+,"
    r" size=\[(?P<size>[\dNone, ]*)\], stride=\[(?P<stride>[\dNone, ]*)\]\)"
)


def fact_of(source: str, parts: list[str]) -> TensorFact | None:
    """The fact that the text of a guard states; the text holds what the guard was made with."""
    start = f"check_tensor({source}, "
    match = _GUARD.match(parts[0], len(start)) if parts and parts[0].startswith(start) else None
    if match is None:
        return None
    return TensorFact(
        numbers(match["size"]),
        numbers(match["stride"]),
        match["cls"] == "Tensor",
        "FuncTorch" in match["keys"],
    )


def numbers(text: str) -> tuple[int | None, ...]:
    return tuple(int(n) if n.isdigit() else None for n in text.split(", ") if n)


def parameter_facts(root: Any, shape: Shape, values: tuple[Any, ...]) -> dict[str, TensorFact]:
    """What is established about the parameters of a direct way (`bcspec.torch.calls.exactly`).

    Args:
        root: the root of the guards.
        shape: how the function is called.
        values: what the parameters are in a call for which the guards hold.
    """
    facts = tensor_facts(root)
    sources = zip(parameter_sources(shape), values, strict=True)
    return {
        name: facts[source]
        for (name, source), value in sources
        if source in facts and facts[source].describes(value)
    }


def parameter_sources(shape: Shape) -> Iterator[tuple[str, str]]:
    """The parameters of a direct way, and what Dynamo calls what they are given."""
    named = shape.positional[len(shape.lead) :]
    for number in range(shape.count):
        if number < len(named):
            yield f"arg_{number}", f"L[{named[number]!r}]"
        else:
            yield f"arg_{number}", f"L[{shape.star!r}][{number - len(named)}]"
    for number, name in enumerate(shape.keywords):
        yield f"keyword_{number}", f"L[{name!r}]"


def operands_of(function: Any, residual: Residual) -> list[str | None]:
    """The parameters that a residual function passes on to another one, by position.

    Args:
        function: what is called, a method in C.
        residual: calls it at one place; if not, the result is empty.

    Returns:
        Names of parameters, None for what is no parameter.
    """
    makers = {value: op for block in residual.fn.blocks for op in block.ops for value in op.results}
    cells = dict(zip(residual.fn.freevars, residual.cells, strict=True))
    calls = []
    for op in makers.values():
        if op.name == "call" and not op.arg:
            callees = [makers[value] for value in op.operands[:2] if value in makers]
            held = [cells[each.arg].cell_contents for each in callees if each.name == "load_deref"]
            if any(type(each) is type(function) and each == function for each in held):
                calls.append(op)
    if len(calls) != 1:
        return []
    loads = [makers.get(value) for value in calls[0].operands[2:]]
    names = residual.fn.arg_names
    return [
        load.arg if load is not None and load.name == "load" and load.arg in names else None
        for load in loads
    ]


def established(facts: dict[str, TensorFact]) -> tuple[Established, ...]:
    """The calls that facts about parameters make needless."""
    asserts, unwrap = internals.assert_size_stride(), internals.unwrap_if_dead()
    always: Callable[..., bool] = lambda *_: True  # noqa: E731
    found = []
    for parameter, fact in facts.items():
        found.append(Established(asserts, parameter, fact.asserts))
        if not fact.wrapped:
            found.append(Established(unwrap, parameter, always, gives_parameter=True))
    return tuple(found)
