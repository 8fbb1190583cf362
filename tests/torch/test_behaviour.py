"""Errors, flags, ambient state and object deaths: as stock has them."""

import gc
import logging
import sys
import threading
import traceback
import weakref
from pathlib import Path

import pytest
import torch

import bcspec.torch
from bcspec.torch import entry, internals, layer, settle

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.memory import compile_and_drop, growth

AOT = "aot_eager"
BACKENDS = {"stock": AOT, "bcspec": bcspec.torch.backend(AOT)}


def compiled_with(name, function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=BACKENDS[name], **options)


def both(run):
    """The outcome of `run` with the stock backend and with ours."""
    return run("stock"), run("bcspec")


def outcome(call):
    """Result or exception of a call, comparable."""
    try:
        return ("value", call())
    except Exception as error:
        return (type(error).__name__, str(error))


# -- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [1, 2, 3])
def test_gradients_for_some_outputs(gradients):
    def run(name):
        f = compiled_with(name, lambda x: (x * 2, x * 3, x * 4))
        found = []
        for _ in range(6):
            x = torch.ones(3, requires_grad=True)
            outputs = f(x)[:gradients]
            torch.autograd.backward(outputs, [torch.ones(3)] * gradients)
            found.append(x.grad.tolist())
        return found

    stock, ours = both(run)
    assert stock == ours


def test_double_backward_raises():
    def run(name):
        f = compiled_with(name, lambda x: (x * x * x).sum())
        results = []
        for _ in range(6):
            x = torch.ones(3, requires_grad=True)
            (grad,) = torch.autograd.grad(f(x), x, create_graph=True)
            results.append(outcome(lambda: grad.sum().backward()))
        return results

    stock, ours = both(run)
    assert stock == ours
    assert stock[-1][0] == "RuntimeError"


def test_changed_saved_tensor_raises():
    def run(name):
        f = compiled_with(name, lambda x, w: torch.sin(x * w))
        results = []
        for _ in range(6):
            x, w = torch.ones(3, requires_grad=True), torch.ones(3)
            y = f(x, w)
            w.add_(1)
            results.append(outcome(lambda: y.sum().backward())[0])
        return results

    stock, ours = both(run)
    assert stock == ours
    assert stock[-1] == "RuntimeError"


@torch.library.custom_op("bcspec_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise ValueError("negative")
    return x.clone()


@positive.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.parametrize("mode", [True, False])
def test_grad_mode_after_a_call_that_raises(mode):
    def run(name):
        f = compiled_with(name, lambda x: positive(x) * 2)
        states = []
        with torch.set_grad_enabled(mode):
            for sign in (1, 1, 1, -1, 1, -1):
                got = outcome(lambda: f(torch.full((3,), float(sign))).tolist())
                states.append((got, torch.is_grad_enabled(), torch._C._is_view_replay_enabled()))
        return states

    stock, ours = both(run)
    assert stock == ours
    assert ("ValueError", "negative") in [state[0] for state in ours]


def test_traceback_names_the_failing_operation():
    f = compiled_with("bcspec", lambda x: positive(x) * 2)
    for _ in range(6):
        f(torch.ones(3))
    with pytest.raises(ValueError, match="negative") as caught:
        f(-torch.ones(3))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "positive"


# -- ambient state --------------------------------------------------------------------


def test_grad_mode_set_inside_persists():
    def program(x):
        torch.set_grad_enabled(False)
        return x + 1

    def run(name):
        f = compiled_with(name, program)
        states = []
        for _ in range(6):
            with torch.enable_grad():
                y = f(torch.ones(2, requires_grad=True))
                states.append((torch.is_grad_enabled(), y.requires_grad))
        return states

    stock, ours = both(run)
    assert stock == ours


def test_enable_grad_inside_no_grad():
    def program(x):
        with torch.enable_grad():
            return x * 2

    def run(name):
        f = compiled_with(name, program)
        with torch.no_grad():
            return [f(torch.ones(2, requires_grad=True)).requires_grad for _ in range(6)]

    assert both(run) == ([True] * 6, [True] * 6)


def test_threads_share_a_graph():
    f = compiled_with("bcspec", lambda x: x * 2 + 1)
    f(torch.ones(4, requires_grad=True))
    wrong = []

    def work(seed, grad):
        with torch.set_grad_enabled(grad):
            for step in range(50):
                x = torch.full((4,), float(seed + step), requires_grad=True)
                y = f(x)
                good = y.requires_grad == grad and y.tolist() == [2.0 * (seed + step) + 1] * 4
                if not good or torch.is_grad_enabled() != grad:
                    wrong.append((seed, step))

    f_no_grad = (
        threading.Thread(target=work, args=(0, True)),
        threading.Thread(target=work, args=(7, False)),
    )
    for thread in f_no_grad:
        thread.start()
    for thread in f_no_grad:
        thread.join()
    assert not wrong


# -- flags that stock reads at each call ----------------------------------------------


def profiled_names(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        call()
    return {event.name for event in profiler.events()}


def test_profiler_attached_after_warm_up():
    def run(name):
        torch._dynamo.reset()
        backend = "inductor" if name == "stock" else bcspec.torch.backend()
        f = torch.compile(lambda x: x + 1, backend=backend)
        x = torch.ones(4, requires_grad=True)
        for _ in range(6):
            f(x).sum().backward()
        names = profiled_names(lambda: f(x).sum().backward())
        return {each for each in names if not each.startswith("cpp_fused")}

    stock, ours = both(run)
    assert stock == ours
    assert any("Call CompiledFxGraph" in each for each in ours)


def test_graph_execution_recording_turned_on_later(monkeypatch):
    from torch._inductor import debug

    f = torch.compile(lambda x: x + 1, backend=bcspec.torch.backend())
    x = torch.ones(4)
    for _ in range(6):
        f(x)
    order = []
    monkeypatch.setattr(debug, "GRAPH_EXECUTION_ORDER", order)
    monkeypatch.setattr(debug, "RECORD_GRAPH_EXECUTION", True)
    f(x)
    assert len(order) == 1


@pytest.mark.parametrize("value", [True, False])
def test_debug_assert_switched_after_specialising(value):
    f = compiled_with("bcspec", lambda x: x * 2)
    x = torch.ones(4, requires_grad=True)
    for _ in range(6):
        f(x)
    with torch._functorch.config.patch(debug_assert=value):
        assert f(x).tolist() == [2.0] * 4


def test_donated_buffer_switched_after_specialising():
    def run(name):
        torch._dynamo.reset()
        backend = "inductor" if name == "stock" else bcspec.torch.backend()
        with torch._functorch.config.patch(donated_buffer=True):
            f = torch.compile(lambda x, y: (x * y).sin().exp(), backend=backend)
            for _ in range(6):
                f(torch.ones(3, requires_grad=True), torch.ones(3)).sum().backward()
            results = []
            for value in (True, False):
                with torch._functorch.config.patch(donated_buffer=value):
                    y = f(torch.ones(3, requires_grad=True), torch.ones(3))
                    results.append(outcome(lambda y=y: y.sum().backward(retain_graph=True)))
        return results

    stock, ours = both(run)
    assert stock == ours


# -- object deaths --------------------------------------------------------------------


def test_a_call_leaves_no_reference_cycle():
    f = compiled_with("bcspec", lambda x: x * 2)
    for _ in range(6):
        f(torch.ones(4, requires_grad=True)).sum().backward()
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(4, requires_grad=True)
        y = f(x)
        alive = [weakref.ref(x), weakref.ref(y)]
        del x, y
        assert [each() for each in alive] == [None, None]
    finally:
        gc.enable()


def test_weights_die_with_their_graph():
    module = torch.nn.Linear(4, 4)
    weight = weakref.ref(module.weight)
    f = compiled_with("bcspec", module.forward)
    for _ in range(6):
        f(torch.ones(2, 4)).sum().backward()
    del f, module
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None


@pytest.mark.parametrize("backend", ["eager", AOT])
def test_dropped_graphs_leave_nothing(backend, monkeypatch):
    monkeypatch.setattr("bcspec.evaluate.source.KEPT", 60)  # soon full
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # records would be kept

    def left():
        torch._dynamo.reset()
        return list(compile_and_drop(20, backend, 10))

    left()
    stock = left()
    with bcspec.torch.installed():
        left()
        ours = left()
    assert sum(each.alive for each in ours) == 0
    assert growth(ours) < growth(stock) + 50


# -- switching on and off -------------------------------------------------------------


def specialisations(caplog):
    return [
        r for r in caplog.records if r.name == "bcspec.torch" and "specialised" in r.getMessage()
    ]


def test_install_covers_every_backend(caplog):
    caplog.set_level(logging.DEBUG, logger="bcspec.torch")
    with bcspec.torch.installed():
        f = torch.compile(lambda x: x + 1, backend=AOT)
        for _ in range(6):
            f(torch.ones(3))
    assert specialisations(caplog)


def test_uninstall_restores_torch():
    cls = internals.aot_autograd_backend()
    before = cls.__call__
    bcspec.torch.install()
    bcspec.torch.install()
    assert cls.__call__ is not before
    bcspec.torch.uninstall()
    assert cls.__call__ is before


def test_environment_switch(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger="bcspec.torch")
    monkeypatch.setenv("BCSPEC_DISABLE", "1")
    f = compiled_with("bcspec", lambda x: x + 1)
    for _ in range(6):
        f(torch.ones(3))
    assert not specialisations(caplog)


def test_missing_internal_is_one_warning(monkeypatch):
    monkeypatch.setattr(
        internals, "missing", lambda: ["gone (checked on torch 2.13): no such thing"]
    )
    layer._complete.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="gone"):
            assert not layer.enabled()
        assert not layer.enabled()
    finally:
        layer._complete.cache_clear()


def test_fault_inside_bcspec_costs_nothing(monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(settle, "specialise", broken)
    monkeypatch.setattr(entry, "build", broken)
    f = compiled_with("bcspec", lambda x: x + 1)
    for _ in range(8):
        assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    stays = [r for r in caplog.records if "stays generic" in r.getMessage()]
    assert len(stays) == 2  # the way into the graph, and the graph's own wrapper


def test_options_pass_through_to_inductor():
    f = torch.compile(lambda x: x + 1, backend="bcspec", options={"max_autotune": False})
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="Unexpected optimization option"):
        torch.compile(lambda x: x + 1, backend="bcspec", options={"no_such_option": 1})(
            torch.ones(2)
        )


def test_backend_keeps_its_identity():
    assert bcspec.torch.backend(AOT) is bcspec.torch.backend(AOT)
    assert bcspec.torch.backend() is bcspec.torch.backend("inductor")
