"""Installing and uninstalling: nested, repeated, from several threads; torch is left as it was found."""

import contextlib
import functools
import os
import sys
import threading
import types

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import bcspec.torch

#: `bcspec.torch.install` is the function.
places = sys.modules["bcspec.torch.install"]

pytestmark = pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op`")

#: Calls after which everything is specialised.
WARM = 5

compile_aot = functools.partial(torch.compile, backend="aot_eager")


def torch_as_it_is():
    """Every definition in every module of torch and in its classes, by identity, and every module's class."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "torch" or not isinstance(module, types.ModuleType):
            continue
        found[name] = type(module)
        for attribute, value in list(vars(module).items()):
            if callable(value) or isinstance(value, types.ModuleType):
                found[name, attribute] = value
            if isinstance(value, type) and value.__module__ == name:
                for member, raw in list(vars(value).items()):
                    if callable(raw) or isinstance(raw, (staticmethod, classmethod, property)):
                        found[name, attribute, member] = raw
    return found


def changed(before, after):
    """What is not the same object or has gone; what is new, if it is ours.

    Torch itself imports further modules while it compiles.
    """
    gone = {name for name in before if before[name] is not after.get(name, before)}
    return gone | {name for name in after.keys() - before.keys() if is_ours(after[name])}


def is_ours(value):
    """Whether a definition is one of bcspec."""
    code = getattr(value, "__code__", None)
    module = str(getattr(value, "__module__", ""))
    folder = os.path.dirname(bcspec.__file__)
    return module.startswith("bcspec.") or (code and code.co_filename.startswith(folder))


@pytest.fixture
def settled():
    """Torch after a first compile has imported and cached all it wants, with no bcspec backend in it.

    A bcspec backend that another test has named stays hooked in for good.
    """
    named = places.unhook("backend")
    f = compile_aot(lambda x: x * 3 + 1)
    for _ in range(WARM):
        f(torch.ones(2, requires_grad=True)).sum().backward()
    with bcspec.torch.installed():
        pass
    yield torch_as_it_is()
    if named:
        places.hook("backend")


def test_everything_is_put_back(settled):
    bcspec.torch.install()
    during = changed(settled, torch_as_it_is())
    bcspec.torch.uninstall()
    assert len(during) >= len(places.PLACES) - 1
    assert changed(settled, torch_as_it_is()) == set()


def test_everything_is_put_back_after_compiling(settled):
    with bcspec.torch.installed():
        f = compile_aot(lambda x: x * 5 + 1)
        for _ in range(WARM):
            f(torch.ones(2, requires_grad=True)).sum().backward()
        # As long as they live, what they rely on is watched: by the class of its module.
        del f
        torch._dynamo.reset()
    assert changed(settled, torch_as_it_is()) == set()


def test_a_backend_by_name_changes_what_it_must_and_no_more(settled):
    f = torch.compile(lambda x: x * 7, backend=bcspec.torch.backend("aot_eager"))
    f(torch.ones(2))
    left = changed(settled, torch_as_it_is())
    wanted = {place.name for place in places.PLACES.values() if "backend" in place.reasons}
    watched = {name for name in left if isinstance(name, str)}
    assert all("._" in name for name in watched), "modules that programs read are not"
    assert left - watched and {name[-1] for name in left - watched} <= wanted


def is_installed():
    return places.PLACES["graph"].generic is not None


def test_repeated_and_nested(settled):
    assert not is_installed()
    for _ in range(2):
        bcspec.torch.install()
    once = torch_as_it_is()
    bcspec.torch.install()
    assert changed(once, torch_as_it_is()) == set()
    del once  # it holds what is watched for
    with bcspec.torch.installed(), bcspec.torch.installed():
        assert is_installed()
    assert is_installed(), "it was installed before the block"
    for _ in range(2):
        bcspec.torch.uninstall()
        assert changed(settled, torch_as_it_is()) == set()
    bcspec.torch.uninstall()
    with bcspec.torch.installed():
        with bcspec.torch.installed():
            pass
        assert is_installed()
    assert not is_installed()


def test_uninstalled_inside_a_block():
    with bcspec.torch.installed():
        bcspec.torch.uninstall()
        assert not is_installed()
    assert not is_installed()


def test_a_block_that_raises():
    with contextlib.suppress(KeyError), bcspec.torch.installed():
        raise KeyError
    assert not is_installed()


def test_only_what_is_compiled_inside_is_specialised():
    def add(x):
        return x + 1

    def direct():
        return bcspec.torch.stats().specialised["entry"]

    outside = compile_aot(add)
    before = direct()
    with bcspec.torch.installed():
        inside = compile_aot(lambda x: x + 2)
        for _ in range(WARM):
            outside(torch.ones(2))
            inside(torch.ones(2))
    assert direct() == before + 1
    after = compile_aot(lambda x: x + 3)
    for _ in range(WARM):
        assert after(torch.ones(2)).tolist() == [4.0, 4.0]
    assert direct() == before + 1


@pytest.mark.parametrize("grad", [False, True])
def test_installing_and_uninstalling_while_threads_call(grad):
    with bcspec.torch.installed():
        ours = compile_aot(lambda x: x * 2)
    functions = [(compile_aot(lambda x: x * 3), 3.0), (ours, 2.0)]
    for function, _ in functions:
        function(torch.ones(2, requires_grad=grad))
    stop, wrong, calls = threading.Event(), [], [0]

    def work():
        while not stop.is_set():
            for function, factor in functions:
                x = torch.ones(2, requires_grad=grad)
                y = function(x)
                if grad:
                    y.sum().backward()
                    y = x.grad
                if y.tolist() != [factor] * 2:
                    wrong.append((factor, y))
                calls[0] += 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        bcspec.torch.install()
        bcspec.torch.uninstall()
    with bcspec.torch.installed():
        g = compile_aot(lambda x: x * 4)
        for _ in range(WARM):
            assert g(torch.ones(1)).item() == 4.0
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and calls[0] > 6 and not is_installed()


# -- backends of all kinds --------------------------------------------------------------------------


def third_party_aot():
    """A backend that someone else built on AOTAutograd, with compilers that wrap what they get."""

    def compiler(graph, inputs):
        def run(args):
            results = graph(*args)
            args.clear()
            return results

        run._boxed_call = True
        return run

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler)


def third_party_unboxed():
    return aot_autograd(fw_compiler=lambda graph, inputs: graph.forward)


def third_party_plain():
    """No AOTAutograd at all: the graph as Dynamo found it."""
    return lambda graph, inputs: graph.forward


BACKENDS = {
    "eager": lambda: {"backend": "eager"},
    "aot_eager_decomp_partition": lambda: {"backend": "aot_eager_decomp_partition"},
    "third-party aot": lambda: {"backend": third_party_aot()},
    "third-party unboxed": lambda: {"backend": third_party_unboxed()},
    "third-party plain": lambda: {"backend": third_party_plain()},
    "reduce-overhead": lambda: {"mode": "reduce-overhead"},
    "cpp_wrapper": lambda: {"options": {"cpp_wrapper": True}},
}


#: With gradients; without where that is cheap.
RUNS = [(name, True) for name in BACKENDS] + [(name, False) for name in list(BACKENDS)[:5]]


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize(("name", "train"), RUNS)
def test_backends(name, train, no_refusals):
    def scenario():
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 3)
        f = torch.compile(lambda x: model(x).relu() * x, **BACKENDS[name]())
        found = []
        for _ in range(WARM):
            x = torch.arange(6.0).view(2, 3).requires_grad_(train)
            with torch.set_grad_enabled(train):
                y = f(x)
            found.append(y.detach().clone())
            if train:
                y.sum().backward()
                found += [x.grad, model.weight.grad.clone()]
        return found

    stock = scenario()
    with bcspec.torch.installed():
        ours = scenario()
    assert len(stock) == len(ours)
    assert all(torch.equal(a, b) for a, b in zip(stock, ours))
