"""The direct way into a compiled graph: taken in the usual case, never in an unusual one."""

import contextlib
import copy
import functools
import gc
import os
import sys
import threading
import unittest.mock
import weakref

import pytest
import torch
from programs import PROGRAMS
from test_equivalence import assert_same, observed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import bcspec.torch

#: Calls after which the direct way is in place.
WARM = 4

compile_aot = functools.partial(torch.compile, backend="aot_eager")


def outcome(call):
    """Result or exception of a call, comparable."""
    try:
        return ("value", call())
    except Exception as error:
        return (type(error).__name__, str(error))


def warm(compiled, *args, **kwargs):
    for _ in range(WARM):
        compiled(*args, **kwargs)
    return compiled


def direct_ways():
    return bcspec.torch.stats().specialised["entry"]


def stock_and_installed(scenario):
    """What a scenario gives with torch as it is, and with bcspec installed."""
    found = []
    for context in (contextlib.nullcontext, bcspec.torch.installed):
        torch._dynamo.reset()
        torch.manual_seed(0)
        with context():
            found.append(scenario())
    torch._dynamo.reset()
    return tuple(found)


# -- the usual case ----------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, train, no_refusals):
    with contextlib.nullcontext() if train else torch.no_grad():
        stock, ours = stock_and_installed(lambda: observed(PROGRAMS[name](), "inductor", train))
    assert_same(stock, ours)


def called_names(call):
    """Names of the Python functions and C functions that a call runs."""
    python, c = [], []

    def profile(frame, event, arg):
        if event == "call":
            python.append(frame.f_code.co_name)
        elif event == "c_call":
            c.append(arg.__name__)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return python, c[:-1]


@pytest.mark.parametrize("grad", [False, True])
def test_frames_of_a_warm_call(grad):
    with bcspec.torch.installed():
        f = torch.compile(lambda x: x + 1)
        x = torch.ones(4, requires_grad=grad)
        with contextlib.nullcontext() if grad else torch.inference_mode():
            warm(f, x)
            python, c = called_names(lambda: f(x))
    assert "compile_wrapper" not in python
    assert python[1:] == ["compiled", "direct", *["forward"] * grad]
    assert "set_eval_frame" not in c


def parameters_of_every_kind(a, b, /, c, *rest, d, **more):
    return a + b * c + sum(rest) * d


CALLS = {
    "positional": (lambda x, y: x - y, lambda x: ((x, x * 2), {})),
    "keywords": (lambda x, y: x - y, lambda x: ((), {"y": x, "x": x * 2})),
    "mixed": (lambda x, *, y: x - y, lambda x: ((x,), {"y": x})),
    "defaults": (lambda x, y=3: x - y, lambda x: ((x,), {})),
    "star": (lambda *xs: xs[0] - xs[1], lambda x: ((x, x), {})),
    "double star": (lambda **xs: xs["b"] - xs["a"], lambda x: ((), {"a": x, "b": x * 2})),
    "every kind": (parameters_of_every_kind, lambda x: ((x, x, x, x, x), {"d": 2})),
    "too many": (lambda x: x, lambda x: ((x, x), {})),
    "missing": (lambda x, y: x, lambda x: ((x,), {})),
}


@pytest.mark.parametrize("name", CALLS)
def test_ways_to_pass_arguments(name):
    function, arguments = CALLS[name]

    def scenario():
        f = compile_aot(function)
        found = []
        for _ in range(WARM):
            args, kwargs = arguments(torch.ones(3))
            found.append(outcome(lambda: f(*args, **kwargs).tolist()))
        return found

    stock, ours = stock_and_installed(scenario)
    assert [kind for kind, _ in stock] == [kind for kind, _ in ours]
    assert stock == ours


def test_defaults_are_read_at_each_call():
    def scenario():
        def f(x, y=2.0, *, z=1.0):
            return x * y + z

        compiled = compile_aot(f)
        found = [compiled(torch.ones(2)).tolist() for _ in range(WARM)]
        f.__defaults__ = (5.0,)
        found += [compiled(torch.ones(2)).tolist() for _ in range(WARM)]
        f.__kwdefaults__ = {"z": 0.0}
        found += [compiled(torch.ones(2)).tolist() for _ in range(WARM)]
        return [*found, compiled(torch.ones(2), z=3.0).tolist()]

    assert_same(*stock_and_installed(scenario))


def test_one_shape_after_the_other():
    def scenario():
        f = compile_aot(lambda x, y=1: x * y)
        x, y = torch.ones(2), torch.full((2,), 5.0)
        return [
            f(*args, **kwargs).tolist()
            for args, kwargs in [((x,), {}), ((x, y), {}), ((x,), {"y": y}), ((), {"x": y})] * WARM
        ]

    assert_same(*stock_and_installed(scenario))


def test_closure_variables_are_read_at_each_call():
    def scenario():
        scale = 2.0
        shift = torch.ones(2)

        def f(x):
            return x * scale + shift

        compiled = compile_aot(f)
        found = []
        for value in (2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
            scale = value
            found.append(compiled(torch.ones(2)).tolist())
        shift = torch.zeros(2)
        found.append(compiled(torch.ones(2)).tolist())
        return found

    assert_same(*stock_and_installed(scenario))


def test_unbound_closure_variable():
    def scenario():
        scale = 2.0

        def f(x):
            return x * scale

        compiled = warm(compile_aot(f), torch.ones(2))
        del scale
        found = [outcome(lambda: compiled(torch.ones(2)))]
        scale = 3.0
        return [*found, compiled(torch.ones(2)).tolist()]

    stock, ours = stock_and_installed(scenario)
    assert stock[0][0] == ours[0][0] == "NameError"
    assert stock[1:] == ours[1:]


SCALE = 2.0


def test_globals_are_read_at_each_call(monkeypatch):
    def scenario():
        f = compile_aot(lambda x: x * SCALE)
        found = []
        for value in (2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
            monkeypatch.setitem(globals(), "SCALE", value)
            found.append(f(torch.ones(2)).tolist())
        return found

    assert_same(*stock_and_installed(scenario))


def test_methods():
    class Model:
        def __init__(self):
            self.weight = torch.full((2,), 3.0)

        def run(self, x):
            return x * self.weight

    def scenario():
        model = Model()
        f = compile_aot(model.run)
        found = [f(torch.ones(2)).tolist() for _ in range(WARM)]
        model.weight = torch.full((2,), 4.0)
        return [*found, f(torch.ones(2)).tolist()]

    assert_same(*stock_and_installed(scenario))


def test_shapes_take_turns():
    def scenario():
        f = compile_aot(lambda x: x * x.shape[0], dynamic=False)
        return [f(torch.ones(size)).tolist() for size in (2, 2, 2, 3, 3, 3, 2, 3, 2, 4, 4, 4, 3, 2)]

    assert_same(*stock_and_installed(scenario))


def test_modules_in_training_and_evaluation():
    def scenario():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
        compiled = compile_aot(model)
        found = []
        for training in (True, True, True, False, False, False, True, False):
            model.train(training)
            torch.manual_seed(1)
            found.append(compiled(torch.ones(2, 3)).detach())
        return found

    assert_same(*stock_and_installed(scenario))


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x, shift=0.0):
        return self.linear(x) * self.scale + shift


def module_calls(change):
    """A warm compiled module, changed, called again; `change` may give how to undo it."""
    torch.manual_seed(0)
    model = Scaled()
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.ones(2, 3)
    found = [compiled(x).detach() for _ in range(WARM)]
    undo = change(model, compiled)
    try:
        found += [compiled(x).detach() for _ in range(WARM)]
    finally:
        if undo is not None:
            undo()
    if undo is not None:
        found += [compiled(x).detach() for _ in range(WARM)]
    return [*found, compiled.forward(x).detach(), compiled(x, 1.0).detach(), compiled(x=x).detach()]


def attribute_changes(model, compiled):
    model.scale = 3.0


def parameter_changes(model, compiled):
    with torch.no_grad():
        model.linear.weight.add_(1)


def forward_hook(model, compiled):
    return model.register_forward_hook(lambda module, args, output: output + 1).remove


def forward_pre_hook(model, compiled):
    return model.register_forward_pre_hook(lambda module, args: (args[0] + 1,)).remove


def hook_on_the_compiled_module(model, compiled):
    return compiled.register_forward_hook(lambda module, args, output: output + 1).remove


def hook_inside(model, compiled):
    return model.linear.register_forward_hook(lambda module, args, output: output + 1).remove


def global_hook(model, compiled):
    def hook(module, args, output):
        return output + 1 if isinstance(module, Scaled) else None

    return torch.nn.modules.module.register_module_forward_hook(hook).remove


def backward_hook(model, compiled):
    return model.register_full_backward_hook(lambda module, grads, outputs: None).remove


def forward_is_replaced(model, compiled):
    model.forward = lambda x, shift=0.0: x + 5 + shift

    def undo():
        del model.forward

    return undo


def forward_of_the_class_is_replaced(model, compiled):
    patcher = unittest.mock.patch.object(Scaled, "forward", lambda self, x, shift=0.0: x + shift)
    patcher.start()
    return patcher.stop


def compiled_in_place(model, compiled):
    model.compile(backend="aot_eager")


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize(
    "change",
    [
        attribute_changes,
        parameter_changes,
        forward_hook,
        forward_pre_hook,
        hook_on_the_compiled_module,
        hook_inside,
        global_hook,
        backward_hook,
        forward_is_replaced,
        forward_of_the_class_is_replaced,
        compiled_in_place,
    ],
    ids=lambda change: change.__name__,
)
def test_modules(change):
    traced = set()
    handle = torch._dynamo.convert_frame.register_bytecode_hook(
        lambda old, new: traced.add(old.co_filename)
    )
    with contextlib.ExitStack() as stack:
        stack.callback(handle.remove)
        assert_same(*stock_and_installed(lambda: module_calls(change)))
    assert not [file for file in traced if file.startswith(os.path.dirname(bcspec.__file__))]


def test_a_module_is_called_in_two_frames():
    with bcspec.torch.installed(), torch.no_grad():
        compiled = torch.compile(Scaled())
        x = torch.ones(2, 3)
        warm(compiled, x)
        python, _ = called_names(lambda: compiled(x))
    assert python[1:] == ["call", "direct"]
    assert "_call_impl" not in python


def test_copies_of_compiled_modules():
    def scenario():
        torch.manual_seed(0)
        compiled = warm(torch.compile(Scaled(), backend="aot_eager"), torch.ones(2, 3))
        twin = copy.deepcopy(compiled)
        with torch.no_grad():
            twin._orig_mod.linear.weight.zero_()
        return [[each(torch.ones(2, 3)).detach() for _ in range(WARM)] for each in (compiled, twin)]

    assert_same(*stock_and_installed(scenario))


# -- unusual conditions: each is observed on a warm function ------------------------------------


def warm_add():
    return warm(compile_aot(lambda x: x + 1), torch.ones(2))


def after_reset():
    f = warm_add()
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    return [f(torch.ones(2)).tolist(), counter.frame_count]


def recompile():
    f = warm_add()
    return [f(torch.ones(5)).tolist(), f(torch.ones(2)).tolist(), f(torch.ones(7, 2)).tolist()]


def recompile_is_refused():
    f = warm_add()
    with torch.compiler.set_stance("fail_on_recompile"):
        kind, text = outcome(lambda: f(torch.ones(5, 5, 5)))
        return [outcome(lambda: f(torch.ones(2)).tolist()), kind, text.splitlines()[0][:60]]


def recompile_is_eager():
    f = warm_add()
    with torch.compiler.set_stance("eager_on_recompile"):
        return [f(torch.ones(5, 5)).shape, f(torch.ones(2)).tolist()]


def forced_eager():
    def add(x):
        return x + 1 if torch.compiler.is_compiling() else x + 2

    g = warm(compile_aot(add), torch.ones(2))
    with torch.compiler.set_stance("force_eager"):
        inside = g(torch.ones(2)).tolist()
    return [inside, g(torch.ones(2)).tolist()]


def other_backend_by_stance():
    def add(x):
        return x + 1

    g = warm(compile_aot(add), torch.ones(2))
    counter = torch._dynamo.testing.CompileCounter()
    with torch.compiler.set_stance("default", force_backend=counter):
        inside = g(torch.ones(2)).tolist()
    return [inside, counter.frame_count, g(torch.ones(2)).tolist()]


def inside_another_compiled_function():
    f = warm_add()
    counter = torch._dynamo.testing.CompileCounter()
    outer = torch.compile(lambda x: f(x) * 2, backend=counter, fullgraph=True)
    return [outer(torch.ones(2)).tolist(), counter.op_count]


def after_a_graph_break():
    f = warm_add()

    @torch.compile(backend="aot_eager")
    def outer(x):
        torch._dynamo.graph_break()
        return f(x) * 2

    return [outer(torch.ones(2)).tolist() for _ in range(3)]


def fake_tensors():
    f = warm_add()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2))
        return type(f(fake)).__name__


def traced_by_fx():
    f = warm_add()
    kind, text = outcome(lambda: torch.fx.symbolic_trace(f))
    return kind, text[:60]


def traced_by_jit():
    f = warm_add()
    kind, text = outcome(lambda: torch.jit.trace(f, torch.ones(2)))
    return kind, text[-60:]


def exported():
    f = warm_add()

    class Model(torch.nn.Module):
        def forward(self, x):
            return f(x)

    program = torch.export.export(Model(), (torch.ones(2),))
    return [node.name for node in program.graph.nodes]


def under_vmap():
    f = warm_add()
    return outcome(lambda: torch.vmap(f)(torch.ones(3, 2)).tolist())


def under_functional_grad():
    f = warm_add()
    return outcome(lambda: torch.func.grad(lambda x: f(x).sum())(torch.ones(2)).tolist())


def under_a_dispatch_mode():
    f = warm_add()
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Mode():
        result = f(torch.ones(2)).tolist()
    return result, [name for name in seen if "add" in name]


def under_a_function_mode():
    f = warm_add()

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        return f(torch.ones(2)).tolist()


def grad_mode_changes():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x * 2), x)
    found = [f(x).requires_grad]
    with torch.no_grad():
        found += [f(x).requires_grad for _ in range(WARM)]
    with torch.inference_mode():
        found += [f(torch.ones(2)).is_inference() for _ in range(WARM)]
    return [*found, f(x).requires_grad, torch.is_grad_enabled()]


def autocast():
    f = warm(compile_aot(lambda x: x @ x), torch.ones(2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = [f(torch.ones(2, 2)).dtype for _ in range(WARM)]
    return [*inside, f(torch.ones(2, 2)).dtype]


def default_dtype():
    f = warm(compile_aot(lambda x: x + torch.ones(2)), torch.ones(2))
    torch.set_default_dtype(torch.float64)
    try:
        inside = [f(torch.ones(2, dtype=torch.float32)).dtype for _ in range(WARM)]
    finally:
        torch.set_default_dtype(torch.float32)
    return [*inside, f(torch.ones(2)).dtype]


def saved_tensor_hooks():
    packed = []

    def pack(x):
        packed.append(1)
        return x

    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x * x.exp()), x)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        f(x).sum().backward()
    return bool(packed), x.grad.tolist()


def dead_object():
    class Holder:
        pass

    holder = Holder()
    holder.scale = 2.0

    def f(x):
        return x * box[0].scale

    box = [holder]
    compiled = warm(compile_aot(f), torch.ones(2))
    replacement = Holder()
    replacement.scale = 3.0
    box[0] = replacement
    del holder
    gc.collect()
    return compiled(torch.ones(2)).tolist()


def debugger():
    f = warm_add()
    lines = []

    def trace(frame, event, arg):
        lines.append(frame.f_code.co_name)
        return None

    sys.settrace(trace)
    try:
        result = f(torch.ones(2)).tolist()
    finally:
        sys.settrace(None)
    return result, "compile_wrapper" in lines


def profiler_events():
    f = warm_add()
    with torch.profiler.profile() as profile:
        f(torch.ones(2))
    return sorted({event.name for event in profile.events() if not event.name.startswith("aten")})


def compiled_autograd():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: (x * x).sum()), x)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        f(x).backward()
    return x.grad.tolist()


def compiled_autograd_by_configuration():
    with torch._dynamo.config.patch(compiled_autograd=True):
        x = torch.ones(2, requires_grad=True)
        f = compile_aot(lambda x: (x * x).sum())
        for _ in range(WARM):
            f(x).backward()
    return x.grad.tolist()


def disabled():
    f = warm_add()
    return torch._dynamo.disable(f)(torch.ones(2)).tolist()


def run_only():
    f = warm_add()
    only = torch._dynamo.run(f)
    return [only(torch.ones(2)).tolist(), only(torch.ones(3, 3)).tolist()]


def everything_in_one_graph():
    f = warm(compile_aot(lambda x: x + 1, fullgraph=True), torch.ones(2))
    return [f(torch.ones(2)).tolist(), outcome(lambda: f(torch.ones(3, 3)).tolist())]


def no_graph_at_all():
    f = compile_aot(lambda x: x, fullgraph=True)
    return [outcome(lambda: f(torch.ones(2)).tolist()) for _ in range(WARM)]


def isolated_recompiles():
    f = compile_aot(lambda x: x + 1)
    with torch._dynamo.config.patch(recompile_limit=2):
        return [f(torch.ones(*[1] * n)).dim() for n in (1, 2, 3, 4, 1, 1)]


def error_in_the_graph():
    f = warm(compile_aot(lambda x, y: x @ y), torch.ones(2, 2), torch.ones(2, 2))
    return outcome(lambda: f(torch.ones(2, 2), torch.ones(3, 3)))[0]


def numbers_change():
    f = compile_aot(lambda x, n: x * n)
    return [f(torch.ones(2), n).tolist() for n in (1, 1, 1, 1, 2, 2, 2, 3, 3, 3, True, 1.5, 1.5)]


def containers():
    f = compile_aot(lambda d: {"y": d["x"] + d["z"][0], "n": [d["x"]]})
    found = []
    for _ in range(WARM):
        result = f({"x": torch.ones(2), "z": [torch.ones(2)]})
        found.append((sorted(result), result["y"].tolist()))
    return found


def attributes_are_mutated():
    class Counter:
        n = 0

    counter = Counter()

    def f(x):
        counter.n += 1
        return x + 1

    compiled = compile_aot(f)
    return [(compiled(torch.ones(2)).tolist(), counter.n) for _ in range(WARM)]


def lists_are_mutated():
    def f(x, log):
        log.append(x + 1)
        return x

    compiled = compile_aot(f)
    log = []
    for _ in range(WARM):
        compiled(torch.ones(2), log)
    return [each.tolist() for each in log]


def configuration_is_patched():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x * x), x)
    with torch._functorch.config.patch(donated_buffer=True, debug_assert=True):
        f(x).sum().backward()
    return x.grad.tolist()


def wrapped_again():
    f = warm_add()
    g = compile_aot(f)
    return [g(torch.ones(2)).tolist() for _ in range(WARM)]


def decorated_copy():
    f = warm_add()

    @functools.wraps(f)
    def g(*args):
        return f(*args) * 2

    return [g(torch.ones(2)).tolist() for _ in range(WARM)]


CONDITIONS = [
    after_reset,
    recompile,
    recompile_is_refused,
    recompile_is_eager,
    forced_eager,
    other_backend_by_stance,
    inside_another_compiled_function,
    after_a_graph_break,
    fake_tensors,
    traced_by_fx,
    traced_by_jit,
    exported,
    under_vmap,
    under_functional_grad,
    under_a_dispatch_mode,
    under_a_function_mode,
    grad_mode_changes,
    autocast,
    default_dtype,
    saved_tensor_hooks,
    dead_object,
    debugger,
    profiler_events,
    compiled_autograd,
    compiled_autograd_by_configuration,
    disabled,
    run_only,
    everything_in_one_graph,
    no_graph_at_all,
    isolated_recompiles,
    error_in_the_graph,
    numbers_change,
    containers,
    attributes_are_mutated,
    lists_are_mutated,
    configuration_is_patched,
    wrapped_again,
    decorated_copy,
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda each: each.__name__)
def test_unusual_conditions(condition):
    stock, ours = stock_and_installed(condition)
    assert_same(stock, ours)


def test_the_direct_way_was_there():
    """The scenarios above start from functions that have one."""
    with bcspec.torch.installed():
        before = direct_ways()
        warm_add()
        assert direct_ways() == before + 1


# -- installing -------------------------------------------------------------------------


def patched_places():
    from torch._C._dynamo.guards import GuardManager
    from torch._dynamo import convert_frame, eval_frame
    from torch._dynamo.backends import common

    classes = [common.AotAutograd, eval_frame.OptimizeContext, GuardManager]
    functions = [
        {name: value for name, value in vars(module).items() if callable(value)}
        for module in (eval_frame, convert_frame)
    ]
    return [*(dict(vars(cls)) for cls in classes), *functions, dict(convert_frame._bytecode_hooks)]


def test_uninstall_leaves_torch_as_it_was():
    before = patched_places()
    bcspec.torch.install()
    bcspec.torch.install()
    warm_add()
    bcspec.torch.uninstall()
    bcspec.torch.uninstall()
    assert patched_places() == before


def test_installed_nests():
    before = patched_places()
    with bcspec.torch.installed():
        with bcspec.torch.installed():
            pass
        assert patched_places() != before
    assert patched_places() == before


def test_functions_stay_right_after_uninstall():
    with bcspec.torch.installed():
        f = warm_add()
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    assert f(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    torch._dynamo.reset()
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]


def test_threads_call_while_it_is_installed():
    f = compile_aot(lambda x: x * 2)
    stop = threading.Event()
    wrong = []

    def work():
        while not stop.is_set():
            if f(torch.ones(2)).tolist() != [2.0, 2.0]:
                wrong.append(1)

    f(torch.ones(2))
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        with bcspec.torch.installed():
            g = compile_aot(lambda x: x * 3)
            assert [g(torch.ones(1)).item() for _ in range(WARM)] == [3.0] * WARM
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# -- lifetimes ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_everything_dies_with_the_function(backend):
    def watched():
        weight = torch.nn.Parameter(torch.ones(2))
        model = torch.nn.Linear(2, 2)

        def f(x):
            return model(x) * weight

        compiled = warm(torch.compile(f, backend=backend), torch.ones(1, 2))
        return [weakref.ref(each) for each in (model, weight, compiled, f.__code__, f)]

    with bcspec.torch.installed():
        before = direct_ways()
        references = watched()
        assert direct_ways() == before + 1
        gc.collect()
    # The code object is a constant of the enclosing function, so it stays.
    alive = [reference() for reference in references]
    assert alive[:3] == [None] * 3 and alive[4] is None


def test_a_reset_lets_go_of_the_graph():
    with bcspec.torch.installed():
        f = warm_add()
        entry = f.__closure__[0].cell_contents
        ways = [weakref.ref(way.function) for way in entry.ways]
        assert len(ways) == 1
        torch._dynamo.reset()
        gc.collect()
        assert [way() for way in ways] == [None]


def test_the_face_is_that_of_the_wrapper():
    def add(x):
        """Adds."""
        return x + 1

    with bcspec.torch.installed():
        f = compile_aot(add)
    stock = compile_aot(add)
    assert f.__name__ == stock.__name__ and f.__doc__ == stock.__doc__
    assert f.__wrapped__ is add
    assert f.__dict__.keys() == stock.__dict__.keys()
    assert copy.deepcopy(f) is f


def test_a_patched_method_is_called():
    """Mocks of what the user's own code calls take effect through Dynamo's guards."""

    class Model:
        def scale(self):
            return 2

    def scenario():
        model = Model()
        f = warm(compile_aot(lambda x: x * model.scale()), torch.ones(2))
        with unittest.mock.patch.object(Model, "scale", lambda self: 5):
            inside = f(torch.ones(2)).tolist()
        return [inside, f(torch.ones(2)).tolist()]

    assert_same(*stock_and_installed(scenario))


def test_every_function_that_runs_a_graph_gets_its_direct_way():
    """Functions that share their code share Dynamo's cache entries, and what became of their graphs."""

    def make():
        return compile_aot(lambda x: x * 3 + 1)

    with bcspec.torch.installed(), torch.no_grad():
        x = torch.ones(3)
        before = direct_ways()
        for _ in range(3):
            f = make()
            warm(f, x)
            python, _ = called_names(lambda f=f: f(x))
            assert python[1:3] == ["compiled", "direct"]
        assert direct_ways() - before == 3


def test_a_frame_that_calls_a_helper_of_torch_gets_a_direct_way():
    """A float that varies reaches the graph as a tensor, through a function of torch."""

    def make(factor):
        return compile_aot(lambda x: x * factor + 1)

    with bcspec.torch.installed(), torch.no_grad():
        x = torch.ones(3)
        for factor in (2.0, 3.0, 4.0):
            f = make(factor)
            warm(f, x)
            python, _ = called_names(lambda f=f: f(x))
            assert python[1:3] == ["compiled", "direct"]
            assert f(x).tolist() == [factor + 1] * 3
