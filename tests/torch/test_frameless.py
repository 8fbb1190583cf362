"""Predicates that decide their usual case in C, against the functions they were made from."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

from bcspec import partial_eval
from bcspec.torch.frameless import without_frame
from bcspec.torch.guards import specialised_guard

state = {"answers": 0}
HOOKS = torch._C._autograd._top_saved_tensors_default_hooks


def graph(x):
    return torch.fx.symbolic_trace(torch.nn.Identity())


CONTEXTS = {
    "no hooks": contextlib.nullcontext,
    "functions": lambda: torch.autograd.graph.saved_tensors_hooks(abs, abs),
    "graphs": lambda: torch.autograd.graph.saved_tensors_hooks(graph(0), graph(0)),
}


def frames_of(call):
    seen = []

    def profile(frame, event, arg):
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, seen[1:]


def captured_guard():
    """The guard that torch makes of the hooks on saved tensors."""
    guards = []
    original = torch._C._dynamo.guards.GuardManager.add_lambda_guard

    def add(manager, guard, *rest):
        guards.append(guard)
        return original(manager, guard, *rest)

    torch._C._dynamo.guards.GuardManager.add_lambda_guard = add
    try:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    finally:
        torch._C._dynamo.guards.GuardManager.add_lambda_guard = original
    return next(guard for guard in guards if "AUTOGRAD_SAVED" in guard.__qualname__)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_guard_of_saved_tensor_hooks(context):
    generic = captured_guard()
    ours = specialised_guard(generic)
    with CONTEXTS[context]():
        assert ours({}) is generic({})
        _, frames = frames_of(lambda: ours({}))
    assert frames == ([] if context == "no hooks" else ["__missing__", "fn"])


# Each asks whether hooks are set, and decides from that.
def asks(x):
    return not HOOKS(True)


def branches(x):
    hooks = HOOKS(True)
    return "none" if hooks is None else hooks[0](-1)


def decides_both(x):
    if HOOKS(True):
        return "set"
    return "not set"


def asks_with_an_effect(x):
    state["answers"] += 1
    return "set" if HOOKS(True) else "not set"


def looks_at_its_argument(x):
    return x if HOOKS(True) else "not set"


def asks_another(x):
    return "set" if torch.is_grad_enabled() else "not set"


@pytest.mark.parametrize("predicate", [branches, decides_both], ids=lambda p: p.__name__)
@pytest.mark.parametrize("context", ["no hooks", "functions"])
def test_an_outcome_that_follows_from_the_answer_needs_no_frame(predicate, context):
    ours = without_frame(partial_eval(predicate), frozenset({HOOKS}))
    with CONTEXTS[context]():
        result, frames = frames_of(lambda: ours(5))
        assert result == predicate(5)
    computed = predicate is branches and context == "functions"
    assert frames == (["__missing__", predicate.__name__] if computed else [])


@pytest.mark.parametrize(
    "predicate",
    [asks, asks_with_an_effect, looks_at_its_argument, asks_another],
    ids=lambda p: p.__name__,
)
def test_others_stay_as_they_are(predicate):
    fast = partial_eval(predicate)
    assert without_frame(fast, frozenset({HOOKS})) is fast
