"""Reading attributes of known objects without running user code.

Follows ``object.__getattribute__`` and ``type.__getattribute__`` (CPython, ``Objects/object.c``
and ``typeobject.c``) on static look-ups; anything with a customised look-up is not folded.
"""

from __future__ import annotations

import enum
import functools
import types
from typing import TYPE_CHECKING, Any

from .domain import AVal, Const, Ref, VObj
from .machine import known_type

if TYPE_CHECKING:
    from .evaluator import Evaluator

_MISSING = object()

#: Types whose named attributes can never change.
IMMUTABLE_ATTRIBUTES: dict[type, frozenset[str]] = {
    types.MethodType: frozenset({"__func__", "__self__"}),
    range: frozenset({"start", "stop", "step"}),
    slice: frozenset({"start", "stop", "step"}),
    functools.partial: frozenset({"func", "args", "keywords"}),
    property: frozenset({"fget", "fset", "fdel"}),
    types.CodeType: frozenset(name for name in dir(types.CodeType) if name.startswith("co_")),
    complex: frozenset({"real", "imag"}),
    int: frozenset({"real", "imag", "numerator", "denominator"}),
}

#: Values that count as definitions: a global name or class attribute bound to one of these is
#: assumed to stay, and watched where the interpreter allows.
DEFINITIONS: tuple[type, ...] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)


class Getter:
    """A property that has to be called on the instance."""

    def __init__(self, function: Any) -> None:
        self.function = function


class Bound:
    """A function found on the class of the instance: a method."""

    def __init__(self, function: Any) -> None:
        self.function = function


Found = AVal | Getter | Bound


def find_attribute(ev: Evaluator, aval: AVal, name: str) -> Found | None:
    if isinstance(aval, Const):
        return const_attribute(ev, aval, name)
    if isinstance(aval, Ref):
        return virtual_attribute(ev, aval, name)
    cls = known_type(aval)
    if cls is None or not ev.request.assume:
        return None
    return typed_attribute(ev, cls, name)


def typed_attribute(ev: Evaluator, cls: type, name: str) -> Found | None:
    """A part of the class of an unknown instance, which cannot be shadowed."""
    raw = static_lookup(cls, name)
    if isinstance(raw, property) and isinstance(raw.fget, types.FunctionType):
        return Getter(raw.fget)
    shadowable = hasattr(cls, "__dictoffset__") and cls.__dictoffset__ != 0
    knowledge = ev.request.knowledge
    if (cls, name) in knowledge.class_attributes:
        ev.assume("declared", cls, name, raw, knowledge.class_attributes[cls, name])
        return Const(raw)
    declared = (
        cls in knowledge.frozen_types or cls in knowledge.unshadowed or cls in ev.declared_types
    )
    if shadowable and not declared:
        return None
    return class_part(ev, cls, name, raw)


def static_lookup(cls: type, name: str) -> Any:
    """``name`` in the dictionaries along the method resolution order, or _MISSING."""
    for base in cls.__mro__:
        namespace = base.__dict__
        if name in namespace:
            return namespace[name]
    return _MISSING


#: Builtin types whose look-up is that of `object` under a name of its own.
_PLAIN_BUILTINS = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    str,
    bytes,
    int,
    bool,
    float,
    complex,
    range,
    slice,
    types.SimpleNamespace,
)


def plain_lookup(cls: type) -> bool:
    """Whether attribute look-up on instances of `cls` is the default one."""
    found = static_lookup(cls, "__getattribute__")
    return (
        found is object.__getattribute__ or getattr(found, "__objclass__", None) in _PLAIN_BUILTINS
    )


def const_attribute(ev: Evaluator, const: Const, name: str) -> Found | None:
    """What ``const.name`` is, if it is known."""
    obj = const.obj
    if (id(obj), name) in ev.request.knowledge.volatile:
        return None
    reading = ev.read(obj, name)
    if reading is not None:
        return reading
    if isinstance(obj, types.ModuleType):
        return module_attribute(ev, obj, name)
    if isinstance(obj, type):
        return class_attribute(ev, obj, name)
    if name in IMMUTABLE_ATTRIBUTES.get(type(obj), ()):
        return Const(getattr(obj, name))
    if type(obj) is types.FunctionType and name == "__doc__" and ev.request.assume:
        return docstring(ev, obj, obj.__doc__)
    if not ev.request.assume or not plain_lookup(type(obj)):
        return None
    return instance_attribute(ev, const, name)


def module_attribute(ev: Evaluator, module: types.ModuleType, name: str) -> AVal | None:
    if type(module).__getattribute__ is not types.ModuleType.__getattribute__:
        return None
    return ev.global_constant(module.__dict__, name, builtins_too=False)


def docstring(ev: Evaluator, owner: Any, text: Any) -> Const | None:
    """The docstring of a function or class."""
    if not isinstance(text, (str, type(None))):
        return None
    ev.assume("declared", owner, "__doc__", text, "docstrings are not replaced")
    return Const(text)


def class_attribute(ev: Evaluator, cls: type, name: str) -> Found | None:
    """A function, method or nested class of a class, or its docstring."""
    if not ev.request.assume or type(cls).__getattribute__ is not type.__getattribute__:
        return None
    if name == "__doc__" and "__doc__" in cls.__dict__:
        if not isinstance(static_lookup(type(cls), name), (str, type(None))):
            return None if type(cls) is not type else docstring(ev, cls, cls.__dict__["__doc__"])
        return docstring(ev, cls, cls.__dict__["__doc__"])
    if static_lookup(type(cls), name) is not _MISSING:
        return None
    raw = static_lookup(cls, name)
    value = descriptor_on_class(ev, cls, raw)
    if (
        value is None
        and raw is not _MISSING
        and declared_frozen(ev, cls, name)
        and plain_value(raw)
    ):
        value = Const(raw)
    if value is not None:
        ev.assume("watched", cls, name, raw, "definitions in a class stay")
    return value


def descriptor_on_class(ev: Evaluator, cls: type, raw: Any) -> AVal | None:
    if isinstance(raw, staticmethod):
        return Const(raw.__func__)
    if isinstance(raw, classmethod):
        return ev.new_ref(VObj("method", None, (Const(raw.__func__), Const(cls))))
    if isinstance(raw, enum.EnumType) or type(raw) in DEFINITIONS or isinstance(raw, type):
        return Const(raw) if not isinstance(raw, types.ClassMethodDescriptorType) else None
    if isinstance(cls, enum.EnumType) and isinstance(raw, cls):
        return Const(raw)
    return None


def plain_value(raw: Any) -> bool:
    return not hasattr(type(raw), "__get__")


def instance_attribute(ev: Evaluator, const: Const, name: str) -> Found | None:
    obj = const.obj
    cls = type(obj)
    raw = static_lookup(cls, name)
    if type(raw) is property:
        return property_getter(ev, cls, name, raw)
    if isinstance(obj, enum.Enum) and name in ("name", "value"):
        return Const(obj._name_ if name == "name" else obj._value_)
    reason = frozen_reason(ev, const, name)
    if raw is not _MISSING and hasattr(type(raw), "__set__"):
        return slot_value(ev, const, name, raw, reason)
    namespace = getattr(obj, "__dict__", None)
    if isinstance(namespace, dict) and name in namespace:
        if reason is None:
            return None
        ev.assume("declared", obj, name, namespace[name], reason)
        return Const(namespace[name], reason_is_deep(reason, namespace[name]))
    return from_class(ev, const, name, raw, reason)


def property_getter(ev: Evaluator, cls: type, name: str, raw: property) -> Getter | None:
    if type(raw) is not property or not isinstance(raw.fget, types.FunctionType):
        return None
    ev.assume("watched", cls, name, raw, "definitions in a class stay")
    return Getter(raw.fget)


def slot_value(ev: Evaluator, const: Const, name: str, raw: Any, reason: str | None) -> AVal | None:
    """A ``__slots__`` member or a field of a NamedTuple."""
    if reason is None or not isinstance(
        raw, (types.MemberDescriptorType, types.GetSetDescriptorType)
    ):
        return tuple_field(const.obj, name)
    try:
        value = raw.__get__(const.obj, type(const.obj))
    except AttributeError:
        return None
    ev.assume("declared", const.obj, name, value, reason)
    return Const(value, reason_is_deep(reason, value))


def tuple_field(obj: Any, name: str) -> Const | None:
    """A field of a NamedTuple."""
    fields = getattr(type(obj), "_fields", ())
    if not isinstance(obj, tuple) or name not in fields:
        return None
    return Const(tuple.__getitem__(obj, fields.index(name)))


def from_class(
    ev: Evaluator, const: Const, name: str, raw: Any, reason: str | None
) -> Found | None:
    """An attribute that only the class has."""
    cls = type(const.obj)
    found: Found | None = None
    if isinstance(raw, (types.FunctionType, types.MethodDescriptorType)):
        found = Bound(raw)
    elif isinstance(raw, staticmethod):
        found = Const(raw.__func__)
    elif isinstance(raw, classmethod):
        found = ev.new_ref(VObj("method", None, (Const(raw.__func__), Const(cls))))
    elif tuple_field(const.obj, name) is not None:
        found = tuple_field(const.obj, name)
    elif raw is not _MISSING and (reason is not None or isinstance(raw, type)) and plain_value(raw):
        found = Const(raw)
    if found is not None:
        ev.assume("watched", cls, name, raw, "definitions in a class stay")
    return found


def frozen_reason(ev: Evaluator, const: Const, name: str) -> str | None:
    """Why attribute `name` of a known object never changes, or None."""
    obj, cls = const.obj, type(const.obj)
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        return "a frozen dataclass"
    knowledge = ev.request.knowledge
    if id(obj) in knowledge.frozen_objects:
        return knowledge.frozen_objects[id(obj)][1]
    for base in cls.__mro__:
        if (base, name) in knowledge.frozen_attributes:
            return knowledge.frozen_attributes[base, name]
        if base in knowledge.frozen_types:
            return knowledge.frozen_types[base]
    return None


def declared_frozen(ev: Evaluator, cls: type, name: str) -> bool:
    knowledge = ev.request.knowledge
    return id(cls) in knowledge.frozen_objects or any(
        (b, name) in knowledge.frozen_attributes or b in knowledge.frozen_types for b in cls.__mro__
    )


def reason_is_deep(reason: str, value: Any) -> bool:
    """Whether the items of a container found in frozen metadata are frozen as well."""
    return reason != "a frozen dataclass" and type(value) in (list, dict, set, tuple)


# -- virtual and typed values ----------------------------------------------------------


def virtual_attribute(ev: Evaluator, ref: Ref, name: str) -> Found | None:
    """An attribute of a virtual object."""
    obj = ev.object(ref)
    assert obj is not None
    rule = _VIRTUAL.get(obj.kind)
    return rule(ev, obj, name) if rule is not None else None


def _instance(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    cls_hold, names = obj.tag
    cls = cls_hold.obj
    raw = static_lookup(cls, name)
    if isinstance(raw, property):
        return property_getter(ev, cls, name, raw)
    if name in names:
        return obj.kids[names.index(name)]
    return class_part(ev, cls, name, raw)


def class_part(ev: Evaluator, cls: type, name: str, raw: Any) -> Found | None:
    """An attribute that an instance of `cls` certainly takes from its class."""
    found: Found | None = None
    if isinstance(raw, (types.FunctionType, types.MethodDescriptorType)):
        found = Bound(raw)
    elif isinstance(raw, staticmethod):
        found = Const(raw.__func__)
    elif isinstance(raw, classmethod):
        found = ev.new_ref(VObj("method", None, (Const(raw.__func__), Const(cls))))
    if found is not None:
        ev.assume("watched", cls, name, raw, "definitions in a class stay")
    return found


def method_of(ev: Evaluator, function: Any, instance: AVal) -> AVal:
    """A virtual bound method."""
    return ev.new_ref(VObj("method", None, (Const(function), instance)))


def _method(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    return {"__func__": obj.kids[0], "__self__": obj.kids[1]}.get(name)


def _slice(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    names = ("start", "stop", "step")
    return obj.kids[names.index(name)] if name in names else None


def _super(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    """Look-up after a class in the method resolution order of the instance's class."""
    from .machine import known_type

    start, instance = obj.kids
    assert isinstance(start, Const)
    cls: type | None
    on_class = False
    if isinstance(instance, Const) and isinstance(instance.obj, type):
        on_class = issubclass(instance.obj, start.obj)
        cls = instance.obj if on_class else type(instance.obj)
    elif isinstance(instance, Ref):
        cls = ev.state.heap[instance.id].tag[0].obj
    else:
        cls = known_type(instance)
    if cls is None or start.obj not in cls.__mro__:
        return None
    mro = cls.__mro__[cls.__mro__.index(start.obj) + 1 :]
    for base in mro:
        if name in base.__dict__:
            raw = base.__dict__[name]
            if isinstance(raw, staticmethod):
                return Const(raw.__func__)
            if isinstance(raw, classmethod):
                return ev.new_ref(VObj("method", None, (Const(raw.__func__), Const(cls))))
            if name == "__new__":
                return Const(raw)
            if isinstance(raw, types.ClassMethodDescriptorType):
                return Const(raw.__get__(None, cls))
            if isinstance(raw, types.FunctionType):
                ev.assume("watched", base, name, raw, "definitions in a class stay")
                return Const(raw) if on_class else method_of(ev, raw, instance)
            return None
    return None


def _exception(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    if name == "value" and obj.tag[0].obj is StopIteration:
        return obj.kids[0] if obj.kids else Const(None)
    return ev.new_ref(VObj("tuple", None, obj.kids)) if name == "args" else None


def _gencall(ev: Evaluator, obj: VObj, name: str) -> Found | None:
    from .generators import makes_generator

    return _generator(ev, obj, name) if makes_generator(obj) else None


def _builtin(cls: type) -> Any:
    def rule(ev: Evaluator, obj: VObj, name: str) -> Found | None:
        if not ev.request.assume:
            return None
        raw = static_lookup(cls, name)
        return Bound(raw) if isinstance(raw, types.MethodDescriptorType) else None

    return rule


_generator = _builtin(types.GeneratorType)

_VIRTUAL: dict[str, Any] = {
    "instance": _instance,
    "method": _method,
    "slice": _slice,
    "super": _super,
    "exception": _exception,
    "gencall": _gencall,
    "generator": _generator,
    "finished": _generator,
    "list": _builtin(list),
    "tuple": _builtin(tuple),
    "dict": _builtin(dict),
}
