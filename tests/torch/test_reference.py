"""Torch's generic reference wrappers, specialised: what torch's generated ones give, with nothing generic left."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from test_equivalence import assert_same, described, flat
from torch._functorch._aot_autograd.schemas import (
    InputAliasInfo,
    OutputAliasInfo,
    TensorAlias,
    ViewAndMutationMeta,
)

from bcspec.lift import lift

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.reference_cases import VARIANTS, Context, build

#: What a residual may not read: it is decided by the metadata of the graph.  (Some fields are called
#: like attributes of tensors.)
METADATA = {
    field.name
    for cls in (ViewAndMutationMeta, InputAliasInfo, OutputAliasInfo)
    for field in dataclasses.fields(cls)
} - set(dir(torch.Tensor))

#: A list of the process, which torch 2.15 looks through in each forward: no graph decides its length.
PROCESS_STATE = "index_to_external_object_weakref"


@pytest.fixture(scope="module")
def cases():
    """The three callables of each variant; compiling them is the slow part."""
    made = {}

    def case(name):
        if name not in made:
            torch.manual_seed(0)
            made[name] = build(name)
        return made[name]

    return case


def fresh(case):
    """Inputs of their own, the same ones each time, so that mutations do not add up."""
    torch.manual_seed(1)
    return VARIANTS[case.name].inputs()


def seen(value, inputs):
    if isinstance(value, TensorAlias):
        return TensorAlias, seen(value.alias, inputs)
    return described(value, inputs) if isinstance(value, torch.Tensor) else value


def runtime_outcome(case, which):
    """Outputs, inputs afterwards and grad mode."""
    inputs = fresh(case)
    front = case.before if which == "generated" else ()
    outputs = flat(getattr(case, which)(*front, list(inputs)))
    return {
        "outputs": [seen(each, inputs) for each in outputs],
        "inputs": [seen(each, inputs) for each in inputs],
        "grad": torch.is_grad_enabled(),
    }


def autograd_outcome(case, which):
    """Outputs and what is left on the context."""
    context = Context()
    inputs = fresh(case)
    back = case.after if which == "generated" else ()
    outputs = flat(getattr(case, which)(context, inputs, *back))
    left = {
        name: [seen(each, inputs) for each in flat(value)]
        if isinstance(value, (list, tuple))
        else value
        for name, value in sorted(vars(context).items())
    }
    return {"outputs": [seen(each, inputs) for each in outputs], "context": left}


OUTCOMES = {"runtime": runtime_outcome, "autograd": autograd_outcome}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_gives_what_the_generated_wrapper_gives(name, cases):
    case = cases(name)
    outcome = OUTCOMES[case.part]
    assert_same(outcome(case, "generated"), outcome(case, "specialised"))
    assert_same(outcome(case, "generic"), outcome(case, "specialised"))


@pytest.mark.parametrize("name", VARIANTS)
def test_no_loop_and_no_metadata_is_left(name, cases):
    fn = lift(cases(name).specialised.__code__)
    operations = [op for block in fn.blocks for op in block.all_ops()]
    if not any(op.arg == PROCESS_STATE for op in operations):
        assert not [op for op in operations if op.name == "for_iter"]
    read = {op.arg for op in operations if op.name in ("load_attr", "load_method")}
    assert not read & METADATA
