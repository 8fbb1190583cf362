"""What guards establish, and the calls that are left out because of it."""

from __future__ import annotations

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_entry import called_names, stock_and_installed, warm

import bcspec.torch
from bcspec.torch import internals
from bcspec.torch.calls import Shape, Target
from bcspec.torch.established import TensorFact, fact_of, parameter_sources, tensor_facts

assert_size_stride = internals.assert_size_stride()


def facts_after(function, *args, **options):
    torch._dynamo.reset()
    torch.compile(function, backend="eager", **options)(*args)
    (entry,) = internals.cache_entries()(function.__code__, -1)
    return tensor_facts(entry.guard_manager.root)


def test_size_and_stride_of_each_tensor():
    def f(x, *rest, d):
        return x + rest[0].t() + d["a, b"]

    torch._dynamo.reset()
    torch.compile(f, backend="eager")(torch.ones(2, 3), torch.ones(3, 2), d={"a, b": torch.ones(1)})
    (entry,) = internals.cache_entries()(f.__code__, -1)
    found = tensor_facts(entry.guard_manager.root)
    assert found == {
        "L['x']": TensorFact((2, 3), (3, 1), "Tensor", False),
        "L['rest'][0]": TensorFact((3, 2), (2, 1), "Tensor", False),
        "L['d']['a, b']": TensorFact((1,), (1,), "Tensor", False),
    }
    shape = Shape.of(Target.of(f), (1, 2), {"d": 3})
    assert list(parameter_sources(shape)) == [
        ("arg_0", "L['x']"),
        ("arg_1", "L['rest'][0]"),
        ("keyword_0", "L['d']"),
    ]


def test_dimensions_that_vary_are_unknown():
    def f(x):
        return x + 1

    fact = facts_after(f, torch.ones(4, 5), dynamic=True)["L['x']"]
    assert fact.size == (None, None)
    assert not fact.asserts((4, 5), (5, 1))


def test_a_parameter_is_no_plain_tensor():
    def f(x):
        return x + 1

    assert facts_after(f, torch.nn.Parameter(torch.ones(3)))["L['x']"].cls == "Parameter"


@pytest.mark.parametrize(
    "text", ["", "check_tensor(L['y'], Tensor", "check_tensor(L['x'], size=[3])"]
)
def test_texts_that_are_not_understood_establish_nothing(text):
    assert fact_of("L['x']", [text]) is None
    assert fact_of("L['x']", []) is None


sizes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=3).map(tuple)


@given(sizes, sizes)
def test_what_cannot_fail_does_not(real, asked):
    tensor = torch.empty(100).as_strided([n for n, _ in real], [s for _, s in real])
    fact = TensorFact(tuple(tensor.shape), tensor.stride(), "Tensor", False)
    size, stride = tuple(n for n, _ in asked), tuple(s for _, s in asked)
    assert fact.describes(tensor)
    if fact.asserts(size, stride, "input"):
        assert_size_stride(tensor, size, stride, "input")
    if size == fact.size and stride == fact.stride:
        assert fact.asserts(size, stride, "input")


def checks(calls):
    """Which checks there are: sizes are asserted one by one or, by newer versions of Inductor, all
    together; newer autograd functions no longer ask for dead wrappers."""
    return {name for name in calls if name.startswith(("assert_size_stride", "unwrap_if_dead"))}


def checks_of(model, *args):
    torch._dynamo.reset()
    warm(model, *args)
    return checks(called_names(lambda: model(*args))[1])


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_inputs_are_not_checked_twice(grad, asked, monkeypatch):
    monkeypatch.setenv("BCSPEC_SIZE_ASSERTS", "1" if asked else "0")
    inputs = torch.ones(4, requires_grad=grad), torch.ones(4)

    def make():
        return torch.compile(lambda x, y: x * y + 1)

    with contextlib.nullcontext() if grad else torch.no_grad():
        stock = checks_of(make(), *inputs)
        with bcspec.torch.installed():
            ours = checks_of(make(), *inputs)
    assert stock
    assert ours == (stock if asked else set())


@pytest.mark.parametrize("grad", [False, True])
def test_other_sizes_and_strides(grad):
    def scenario():
        f = torch.compile(lambda x: x * 2 + 1, dynamic=False)
        found = []
        for make in (
            lambda: torch.ones(4, 4),
            lambda: torch.arange(16.0).reshape(4, 4).t(),
            lambda: torch.ones(4, 8)[:, ::2],
            lambda: torch.ones(4, 1).expand(4, 4),
            lambda: torch.ones(3, 4),
            lambda: torch.ones(4),
            lambda: torch.ones(0, 4),
        ):
            for _ in range(4):
                result = f(make().requires_grad_(grad))
                found.append((result.tolist(), result.stride()))
        return found

    stock, ours = stock_and_installed(scenario)
    assert stock == ours


def sequential():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@pytest.mark.parametrize("asked", [False, True])
def test_parameters_of_modules_are_not_checked_twice(asked, monkeypatch):
    monkeypatch.setenv("BCSPEC_SIZE_ASSERTS", "1" if asked else "0")
    stock = checks_of(torch.compile(sequential()), torch.ones(3, 4))
    with bcspec.torch.installed():
        ours = checks_of(torch.compile(sequential()), torch.ones(3, 4))
    assert stock
    assert ours == (stock if asked else set())


@pytest.mark.parametrize("grad", [False, True])
def test_parameters_that_change(grad):
    """Size, stride, class and identity of a parameter, at calls after the direct way was made."""

    def scenario():
        torch.manual_seed(0)
        model = sequential()
        compiled = torch.compile(model, dynamic=False)
        found = []

        def run():
            for _ in range(4):
                with torch.set_grad_enabled(grad):
                    result = compiled(torch.arange(12.0).reshape(3, 4))
                if grad:
                    result.sum().backward()
                    gradients = [p.grad.tolist() for p in model.parameters() if p.grad is not None]
                    model.zero_grad()
                    found.append(gradients)
                found.append((result.tolist(), result.stride()))

        run()
        model[0].weight.data = torch.randn(4, 4).t()
        run()
        model[0].weight = torch.nn.Parameter(torch.randn(4, 8)[:, ::2])
        run()
        model[2] = torch.nn.Linear(4, 3)
        run()
        model[2].weight.data, model[2].bias.data = torch.randn(1, 4), torch.randn(1)
        run()
        model[0].bias = None
        run()
        model[1].weight = torch.nn.Parameter(torch.ones(2))
        run()
        return found

    stock, ours = stock_and_installed(scenario)
    assert stock == ours


class Odd(torch.nn.Module):
    """A module whose attributes do not stand where they seem to."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def forward(self, x):
        return self.inner(x)


def test_modules_that_look_up_attributes_themselves():
    def scenario():
        torch.manual_seed(0)
        model = Odd()
        compiled = torch.compile(model)
        found = [compiled(torch.ones(2, 4)).tolist() for _ in range(5)]
        model.inner = torch.nn.Linear(4, 3)
        return found + [compiled(torch.ones(2, 4)).tolist() for _ in range(5)]

    stock, ours = stock_and_installed(scenario)
    assert stock == ours
