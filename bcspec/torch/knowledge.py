"""What torch never changes once a graph has run, each entry with its reason.

The table names places; those that this torch lacks are left out, and what depended on them stays
generic.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from ..knowledge import EntryGuard, Knowledge, Reading
from . import internals

log = logging.getLogger(__name__)

_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"

#: (module, class, reason): no attribute of an instance changes once a graph has run twice.
FROZEN_TYPES: tuple[tuple[str, str, str], ...] = (
    (
        "torch._functorch._aot_autograd.schemas",
        "ViewAndMutationMeta",
        "describes the graph; complete before the wrappers are made",
    ),
    ("torch._functorch._aot_autograd.schemas", "InputAliasInfo", "a frozen description"),
    ("torch._functorch._aot_autograd.schemas", "OutputAliasInfo", "a frozen description"),
    (
        "torch._functorch._aot_autograd.schemas",
        "PlainTensorMeta",
        "a description, set at compile time",
    ),
    (
        "torch._functorch._aot_autograd.schemas",
        "SubclassCreationMeta",
        "a description, set at compile time",
    ),
    (
        "torch._functorch._aot_autograd.schemas",
        "MemoryFormatMeta",
        "a description, set at compile time",
    ),
    (_WRAPPERS, "SerializableCompiledFunction", "holds the compiled function it was made with"),
    (_WRAPPERS, "_AutogradSavedState", "holds the metadata of its graph"),
    (_WRAPPERS, "_AutogradForwardEpilogue", "`finalize` is generated before the class exists"),
    (_WRAPPERS, "_RuntimeCompiledFnInvoker", "made with the wrapper"),
    (_WRAPPERS, "_RuntimeForwardEpilogue", "handlers and indices are made with the wrapper"),
    (_WRAPPERS, "NoopAliasHandler", "made with the wrapper"),
    (_WRAPPERS, "AliasOfInputHandler", "made with the wrapper"),
    (_WRAPPERS, "IsInputHandler", "made with the wrapper"),
    (_WRAPPERS, "AliasOfIntermediateHandler", "made with the wrapper"),
)

#: (module, class, attributes, reason)
FROZEN_ATTRIBUTES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        _WRAPPERS,
        "_FirstInvocationContext",
        ("_is_first",),
        "goes from True to False in the first call that analyses custom operators",
    ),
    (
        _WRAPPERS,
        "_AutogradBackwardCompiler",
        ("compiled_bw",),
        "the backward is compiled once; afterwards the same callable is returned",
    ),
    (
        _WRAPPERS,
        "_AutogradRngStateTracker",
        ("num_rng",),
        "number of generators of the graph",
    ),
    (
        "torch._inductor.output_code",
        "CompiledFxGraph",
        ("current_callable", "fx_kwargs", "_fx_graph_cache_key"),
        "set by post_compile, before the first call",
    ),
    (
        "torch._inductor.output_code",
        "CompiledFxGraph",
        ("_compile_context",),
        "cleared when the first call has written the autotune cache",
    ),
)

#: (module, variable, reason): bound once.
STABLE_GLOBALS: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.utils", "_metrics_context_tls", "the thread-local object itself stays"),
    ("torch._guards", "_TLS", "the thread-local object itself stays"),
)

#: (function, exact type of what it returns).
RESULT_TYPES: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (
    (("torch._C", "_is_view_replay_enabled"), ("builtins", "bool")),
    (("torch._C", "_set_view_replay_enabled"), ("types", "NoneType")),
    (
        ("torch._dynamo.utils", "get_runtime_metrics_context"),
        ("torch._dynamo.metrics_context", "RuntimeMetricsContext"),
    ),
)

#: (module, class, reason): instances never hide a method by an attribute.
UNSHADOWED: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.metrics_context", "RuntimeMetricsContext", "nothing sets a method on it"),
)

#: Why a definition in one of torch's modules counts as fixed.  Watching would give the module a
#: class of its own, and with it every `torch.x` of the user's program the slow attribute look-up.
STABLE_MODULES = "torch does not rebind its own definitions"

#: (object, attribute, exact type of the attribute).
ATTRIBUTE_TYPES: tuple[tuple[tuple[str, str], str, tuple[str, str]], ...] = (
    (
        ("torch._dynamo.utils", "_metrics_context_tls"),
        "runtime_metrics_context",
        ("torch._dynamo.metrics_context", "RuntimeMetricsContext"),
    ),
)

#: (object with the attribute, attribute, expected, reason): read at each call.
ENTRY_GUARDS: tuple[tuple[str, str, Any, str], ...] = (
    (
        "torch.autograd.profiler",
        "_is_profiler_enabled",
        False,
        "set by the profiler from any thread; a plain module global",
    ),
    (
        "torch._inductor.debug",
        "RECORD_GRAPH_EXECUTION",
        False,
        "set by the execution-order recorder; a plain module global",
    ),
)

#: (module, qualified name, reason): stay calls.
NO_UNFOLD: tuple[tuple[str, str, str], ...] = (
    (
        "torch._dynamo.eval_frame",
        "_callback_from_stance",
        "makes functions for stances that compile",
    ),
    ("torch.fx", "Interpreter.__init__", "runs a whole graph"),
    ("torch.fx", "Interpreter.boxed_run", "runs a whole graph"),
    ("torch.fx", "Interpreter.run", "runs a whole graph"),
    ("torch.nn", "Module._call_impl", "runs user hooks"),
    ("torch.nn", "Module._wrapped_call_impl", "runs user hooks"),
    (
        "torch._functorch._aot_autograd.functional_utils",
        "gen_alias_from_base",
        "replays views of an input: work, not dispatch",
    ),
    (
        "torch._dynamo.utils",
        "mark_dynamo_propagated_dynamic_indices",
        "marks an output: work, not dispatch",
    ),
    ("torch.fx.traceback", "preserve_node_meta", "swaps module globals around a whole graph"),
)

#: Functions whose closure cells their factory has finished with when it returns.
CONSTANT_CELLS: tuple[tuple[str, str], ...] = (
    (
        "torch._dynamo.external_utils.wrap_inline",
        "its parameter is what a module's compiled frame calls; nothing binds it anew",
    ),
    (
        "torch._functorch.aot_autograd.aot_module_simplified",
        "the factory binds its variables before it makes the function it returns",
    ),
    (
        _WRAPPERS,
        "wrapper factories bind their variables before they return",
    ),
    (
        "torch._functorch._aot_autograd.utils",
        "wrapper factories bind their variables before they return",
    ),
)

#: C functions that do no more than look at a state of the thread.
LOOKERS: tuple[tuple[str, str], ...] = (("torch._C._autograd", "_top_saved_tensors_default_hooks"),)

#: (module, function, reason): they leave grad mode as it is.
UNDISTURBING: tuple[tuple[str, str, str], ...] = (
    ("torch._C", "_is_view_replay_enabled", "reads a flag of the thread"),
    ("torch._C", "_set_view_replay_enabled", "sets another flag of the thread"),
    ("torch._C", "_are_functorch_transforms_active", "reads a flag of the thread"),
)

#: (module, function, class, reason): what the first argument most often is exactly an instance of.
EXPECTED_TYPES: tuple[tuple[str, str, tuple[str, str], str], ...] = (
    (
        _WRAPPERS,
        "AOTDispatchAutograd.process_runtime_tangent",
        ("torch", "Tensor"),
        "a tangent stays a plain tensor while a backward runs",
    ),
)

#: (function, closure variable, reason): a container whose content stays as well.
DEEP_CELLS: tuple[tuple[str, str, str], ...] = (
    (
        "torch._functorch.aot_autograd.aot_module_simplified.<locals>.forward",
        "params_buffers_flat",
        "parameters and buffers are collected before the function is made",
    ),
)


@functools.cache
def torch_knowledge() -> Knowledge:
    """The whole table, resolved for the torch that is installed."""
    known = Knowledge()
    for module, name, reason in FROZEN_TYPES:
        for cls in found(module, name):
            known.frozen_types[cls] = reason
    for module, name, attributes, reason in FROZEN_ATTRIBUTES:
        for cls in found(module, name):
            known.frozen_attributes.update({(cls, attribute): reason for attribute in attributes})
    known.stable_types[functools.partial] = "a function of a module, such as its own `zip`"
    known.frozen_attributes[FunctionType, "_boxed_call"] = "set where the function is made"
    for module, variable, reason in STABLE_GLOBALS:
        known.stable_globals[module, variable] = reason
    for function, result in RESULT_TYPES:
        for callee, cls in zip(found(*function), found(*result)):
            known.result_types[callee] = cls
    for module, name, reason in UNSHADOWED:
        known.unshadowed.update(dict.fromkeys(found(module, name), reason))
    for holder, attribute, result in ATTRIBUTE_TYPES:
        for obj, cls in zip(found(*holder), found(*result)):
            known.attribute_types[id(obj), attribute] = cls
    for owner, attribute, expected, reason in ENTRY_GUARDS:
        for module in found(owner):
            if hasattr(module, attribute):
                known.entry_guards.append(EntryGuard(module, attribute, expected, reason))
    for module, name, reason in NO_UNFOLD:
        for callee in found(module, name):
            known.no_unfold[callee] = reason
    for module, name, reason in UNDISTURBING:
        known.undisturbing.update(dict.fromkeys(found(module, name), reason))
    for module, name, expected, reason in EXPECTED_TYPES:
        for function, cls in zip(found(module, name), found(*expected)):
            known.expect(function, cls, reason)
    known.constant_cells.update(CONSTANT_CELLS)
    known.deep_cells.update({(label, name): reason for label, name, reason in DEEP_CELLS})
    known.frozen_namespaces.append(generated_namespace)
    known.readers.append(read_config)
    return known


@functools.cache
def lookers() -> frozenset[Any]:
    """C functions that guards may ask twice."""
    return frozenset(function for place in LOOKERS for function in found(*place))


def found(module: str, name: str = "") -> Iterable[Any]:
    """The object, or nothing where this torch lacks it."""
    try:
        return (internals.resolve(module, name),)
    except (ImportError, AttributeError) as error:
        log.debug("not in this torch: %s.%s (%s)", module, name, error)
        return ()


def generated_namespace(namespace: dict[str, Any]) -> str | None:
    """Why the globals of generated source never change, None if it is no generated source."""
    name = namespace.get("__name__")
    if name is None:
        return "globals of a generated wrapper, complete before it is compiled"
    if name.startswith("torch._inductor.runtime.compile_tasks."):
        return "globals of Inductor's generated module, complete when the graph is loaded"
    return None


def read_config(owner: Any, attribute: str) -> Reading | None:
    """What a configuration module answers, with the cheapest read that notices a change.

    A configuration entry lives in a context variable; asking that is one C call, where the module's
    own `__getattr__` is four Python frames.  Checked on torch 2.13.
    """
    if not isinstance(owner, ModuleType) or not isinstance(owner, internals.config_module()):
        return None
    entry: Any = vars(owner).get("_config", {}).get(attribute)
    override: Any = getattr(entry, "user_override", None)
    if override is None or entry.alias is not None or entry.justknob is not None:
        return None
    if entry.hide or entry.deprecated:
        return None
    present = override.get()
    value = getattr(owner, attribute)
    if not isinstance(value, (bool, type(None))):
        return None
    guard = EntryGuard(
        override,
        "get",
        present,
        "configuration may change between calls, in any context",
        call=True,
    )
    return Reading(value, "configuration, read at each call", guard)
