"""Stock against specialised: same outputs, gradients, aliasing, versions, bit for bit."""

import pytest
import torch
from programs import PROGRAMS

import bcspec.torch

CALLS = 4


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def version(tensor):
    """The version counter, which inference tensors lack."""
    return None if tensor.is_inference() else tensor._version


def described(tensor, inputs):
    """Everything about an output that a user can see."""
    return {
        "value": tensor.detach().clone(),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "version": version(tensor),
        "is_view": tensor._is_view(),
        "stride": tensor.stride(),
        "is_input": [tensor is each for each in inputs],
        "shares": [
            tensor.untyped_storage().data_ptr() == each.untyped_storage().data_ptr()
            for each in inputs
        ],
        "grad_fn": type(tensor.grad_fn).__name__,
    }


def observed(program, backend, train):
    """Run a program several times from the same seed and note all that can be seen."""
    torch.manual_seed(1)
    compiled = torch.compile(program.function, backend=backend, **dict(program.options))
    optimizer = torch.optim.SGD(program.module.parameters(), lr=0.1) if program.module else None
    log = []
    for _ in range(CALLS):
        inputs = program.inputs()
        outputs = flat(compiled(*inputs))
        entry = {"outputs": [described(each, inputs) for each in outputs]}
        entry["same"] = [[a is b for a in outputs] for b in outputs]
        entry["inputs"] = [(each.detach().clone(), version(each)) for each in inputs]
        differentiable = [each for each in outputs if each.requires_grad]
        if train and differentiable:
            sum((each.double() ** 2).sum() for each in differentiable).backward()
            entry["grads"] = [each.grad for each in inputs if each.is_leaf]
        if optimizer is not None and train:
            optimizer.step()
            optimizer.zero_grad()
            entry["parameters"] = [p.detach().clone() for p in program.module.parameters()]
        log.append(entry)
    return log


def assert_same(left, right, where=""):
    """Equal structure; tensors equal bit for bit."""
    assert type(left) is type(right), where
    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype and torch.equal(left, right), where
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for index, (a, b) in enumerate(zip(left, right)):
            assert_same(a, b, f"{where}[{index}]")
    else:
        assert left == right, where


def compare(name, stock, ours, train=True):
    logs = []
    for backend in (stock, ours):
        torch._dynamo.reset()
        torch.manual_seed(0)
        logs.append(observed(PROGRAMS[name](), backend, train))
    assert_same(*logs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_aot_eager(name, no_refusals):
    compare(name, "aot_eager", bcspec.torch.backend("aot_eager"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_inductor(name, no_refusals):
    compare(name, "inductor", bcspec.torch.backend())


@pytest.mark.parametrize(
    "name", ["add_one", "mutated_input", "view_output", "twenty_outputs", "linear"]
)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients(name, context, no_refusals):
    with context():
        compare(name, "inductor", bcspec.torch.backend(), train=False)
