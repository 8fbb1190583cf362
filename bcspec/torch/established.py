"""What Dynamo's guards have established about tensors, and which calls that makes needless.

A frame runs only where the guards of its cache entry hold.  For each tensor these compare class, dispatch
keys, size and stride with what was seen at compile time; Inductor's generated code asks for size and
stride of its inputs again, and the autograd function whether they are dead functorch wrappers.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ..knowledge import FIRST, Ambient, Established, Refinement
from . import internals
from .calls import Shape
from .chain import content


@dataclass(frozen=True)
class TensorFact:
    """What one guard compares.

    Attributes:
        size, stride: in elements, None for a dimension that varies.
        cls: name of the exact class.
        wrapped: some dispatch key is one of functorch.
    """

    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    cls: str
    wrapped: bool

    def describes(self, value: Any) -> bool:
        """Whether the fact is true of a tensor for which the guard holds: its text was read right."""
        if not isinstance(value, internals.tensor()) or type(value).__name__ != self.cls:
            return False
        return all(
            len(known) == len(found) and all(a in (None, b) for a, b in zip(known, found))
            for known, found in ((self.size, value.shape), (self.stride, value.stride()))
        )

    def asserts_in_group(self, place: int, count: int, sizes: Any, strides: Any, *_: Any) -> bool:
        """The same of one of the tensors of `assert_size_stride_grouped`."""
        return (
            type(sizes) is type(strides) is tuple
            and len(sizes) == len(strides) == count
            and self.asserts(sizes[place], strides[place])
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
        if manager.is_tag_safe_root():
            continue  # passed over as long as the dictionaries below are the same
        managers += manager.get_child_managers()
        if isinstance(manager, internals.dict_guard_manager()):
            pairs = manager.get_key_value_managers().values()
            managers += [value for _, value in pairs if value is not None]
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
        match["cls"],
        "FuncTorch" in match["keys"],
    )


_GLOBAL_STATE = "___check_global_state() against "


def ambient_of(root: Any) -> list[Ambient]:
    """The states of the thread that the guards compare, as far as their text tells: grad mode.

    Args:
        root: the root of the guards of a cache entry.
    """
    for guard in root.get_leaf_guards():
        _, found, text = guard.verbose_code_parts()[0].partition(_GLOBAL_STATE)
        if type(guard).__name__ != "GLOBAL_STATE" or not found:
            continue
        try:
            state, _ = json.JSONDecoder().raw_decode(text)
        except ValueError:  # not the text that this was written for
            continue
        if type(state.get("grad_mode")) is bool:
            read, set_ = internals.grad_mode()
            return [Ambient(read, set_, state["grad_mode"])]
    return []


def numbers(text: str) -> tuple[int | None, ...]:
    return tuple(int(n) if n.isdigit() else None for n in text.split(", ") if n)


def guarded(root: Any, shape: Shape, values: tuple[Any, ...]) -> Guarded:
    """What is established about what a direct way is called with and what its frame holds.

    Args:
        root: the root of the guards.
        shape: how the function is called.
        values: what the parameters of the direct way (`bcspec.torch.calls.exactly`) are in a call
            for which the guards hold.
    """
    roots = {
        source: value for (_, source), value in zip(parameter_sources(shape), values, strict=True)
    }
    roots |= {source_of(name): value for name, value in constants_of(shape).items()}
    parts: dict[str, dict[Step, Any]] = {}
    for source, fact in tensor_facts(root).items():
        steps = steps_of(source, roots)
        if steps is None:
            continue
        name, way = steps
        value = follow(roots[name], way)
        if fact.describes(value):
            node = parts.setdefault(name, {})
            for step in way:
                node = node.setdefault(step, {})
            node[HERE] = Refinement(type(value), tuple(needless(fact)))
    known = {source: refined(node) for source, node in parts.items()}
    return Guarded(
        {name: known[source] for name, source in parameter_sources(shape) if source in known},
        {
            (id(value), name): inner
            for source, value in roots.items()
            for name, inner in (known[source].attributes.items() if source in known else ())
        },
        ambient_of(root),
    )


@dataclass(frozen=True)
class Guarded:
    """What the guards of a cache entry establish.

    Attributes:
        parameters: about parameters of the direct way, by name.
        attributes: about attributes of other objects, as `Knowledge.attribute_types` has it.
        ambient: about states of the thread.
    """

    parameters: dict[str, Refinement]
    attributes: dict[tuple[int, str], Refinement]
    ambient: list[Ambient]


def parameter_sources(shape: Shape) -> Iterator[tuple[str, str]]:
    """The parameters of a direct way, and what Dynamo calls what they are given."""
    named = shape.positional[len(shape.lead) :]
    for number in range(shape.count):
        if number < len(named):
            yield f"arg_{number}", source_of(named[number])
        else:
            yield f"arg_{number}", f"{source_of(shape.star or '')}[{number - len(named)}]"
    for number, name in enumerate(shape.keywords):
        yield f"keyword_{number}", source_of(name)


def source_of(variable: str) -> str:
    """What Dynamo calls what a variable of the frame holds."""
    return f"L[{variable!r}]"


def constants_of(shape: Shape) -> dict[str, Any]:
    """Variables of the frame that hold the same object in every call: the instance, closure cells."""
    closure = zip(shape.code.co_freevars, shape.function.__closure__ or (), strict=True)
    return {**dict(zip(shape.positional, shape.lead)), **{n: content(c) for n, c in closure}}


#: A step from an object to a part of it: whether it is an item, and the name or key.
Step = tuple[bool, Any]

#: Where lies, in a tree of the parts of an object, what is known of the object itself.
HERE: Step = (False, None)


def steps_of(source: str, roots: Collection[str]) -> tuple[str, list[Step]] | None:
    """The root that a source begins with, and the way from there; None if it is of another kind."""
    steps: list[Step] = []
    node: ast.expr = ast.parse(source, mode="eval").body
    while (text := ast.unparse(node)) not in roots:
        if isinstance(node, ast.Attribute):
            steps.insert(0, (False, node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.insert(0, (True, node.slice.value))
        else:
            return None
        node = node.value
    return text, steps


def follow(obj: Any, steps: list[Step]) -> Any:
    """What stands at the end of the way, found without running code of the user's; None if not so."""
    for is_item, name in steps:
        container = items_of(obj) if is_item else namespace(obj, name)
        try:
            obj = container[name]
        except (KeyError, IndexError, TypeError):
            return None
    return obj


def items_of(obj: Any) -> Any:
    """The container whose items are found directly; if not so, an empty one."""
    return obj if type(obj) in (dict, list, tuple) else {}


def namespace(obj: Any, name: Any) -> dict[str, Any]:
    """The dictionary in which the attribute of a module is found directly; if not so, an empty one."""
    cls = type(obj)
    plain = cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, name)
    return obj.__dict__ if plain and isinstance(obj, internals.module()) else {}


def refined(tree: dict[Step, Any]) -> Refinement:
    """What is known of an object and, in a tree, of its parts."""
    own = tree.get(HERE, Refinement())
    parts = {step: refined(inner) for step, inner in tree.items() if step != HERE}
    return Refinement(
        own.cls,
        own.established,
        {name: inner for (is_item, name), inner in parts.items() if not is_item},
        {name: inner for (is_item, name), inner in parts.items() if is_item},
    )


def needless(fact: TensorFact) -> Iterator[Established]:
    """The calls that a fact about a tensor makes needless."""
    always: Callable[..., bool] = lambda *_: True  # noqa: E731
    yield Established(internals.assert_size_stride(), fact.asserts, gives=True)
    for function in internals.assert_size_stride_grouped():
        yield Established(function, fact.asserts_in_group, gives=True, grouped=True)
    if not fact.wrapped:
        yield Established(internals.unwrap_if_dead(), always, gives=FIRST)
