"""Mocks of torch's internals take effect at the next call of a function that is specialised already."""

import functools
import importlib
import unittest.mock

import pytest
import torch
from test_entry import WARM, stock_and_installed, warm
from test_equivalence import assert_same

import bcspec.torch

compile_aot = functools.partial(torch.compile, backend="aot_eager")

#: Functions that the backward of a compiled call runs through, where they are looked up.
INTERNALS = [
    "torch._functorch._aot_autograd.runtime_wrappers.coerce_to_expected_memory_format",
    "torch._functorch._aot_autograd.runtime_wrappers.is_traceable_wrapper_subclass",
]


def counted_calls(target):
    """How often a mocked internal is called by each of a few warm calls, and what they give."""
    f = compile_aot(lambda x: (x * 2).sin())

    def call():
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
        return x.grad.tolist()

    for _ in range(WARM + 1):
        call()
    module, _, name = target.rpartition(".")
    generic = getattr(importlib.import_module(module), name)
    counts = []
    with unittest.mock.patch(target, side_effect=generic) as double:
        for _ in range(3):
            double.reset_mock()
            counts.append((double.call_count, call(), double.call_count))
    return counts, [call() for _ in range(WARM)]


@pytest.mark.parametrize("target", INTERNALS)
def test_a_mock_is_called(target):
    stock, ours = stock_and_installed(lambda: counted_calls(target))
    assert_same(stock, ours)
    assert all(after > before for before, _, after in ours[0])


def test_the_module_that_programs_read_is_left_as_it_is():
    with bcspec.torch.installed():
        warm(compile_aot(lambda x: x + 1), torch.ones(2, requires_grad=True))
    public = [torch, torch._C, torch.nn, torch.nn.functional, torch.autograd, torch.utils]
    assert {type(module) for module in public} == {type(unittest)}
