"""More unusual conditions and changes, each on a warm function: stock torch against bcspec installed.

`test_entry.py` has the commonest; here are those of functorch, tracing, stances, hooks and changes of
torch itself.
"""

import functools
import gc
import sys
import threading
import unittest.mock
import warnings

import pytest
import torch
import torch._dynamo.testing
from test_entry import WARM, outcome, stock_and_installed, warm
from test_equivalence import assert_same

compile_aot = functools.partial(torch.compile, backend="aot_eager")


def add_one(x):
    return x + 1


def warm_add(**options):
    return warm(compile_aot(lambda x: x + 1, **options), torch.ones(2))


def counted(function, *args, **options):
    """A function compiled with a backend that counts its compiles."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    return warm(torch.compile(function, backend=counter, **options), *args), counter


# -- recompiles and resets ----------------------------------------------------------------------


def limit_of_recompiles():
    f, counter = counted(lambda x: x + 1, torch.ones(2), dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=3):
        found = [f(torch.ones(n)).tolist() for n in (3, 4, 5, 6, 7, 2, 3, 7)]
    return found, counter.frame_count


def limit_is_an_error():
    f, counter = counted(lambda x: x + 1, torch.ones(2), dynamic=False, fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=2):
        found = [outcome(lambda: f(torch.ones(n)).tolist())[0] for n in (3, 4, 5, 2, 3)]
    return found, counter.frame_count


def isolated_regions():
    def add(x):
        return x + 1

    counters = [torch._dynamo.testing.CompileCounterWithBackend("aot_eager") for _ in range(2)]
    fs = [torch.compile(add, backend=c, isolate_recompiles=True) for c in counters]
    found = [f(torch.ones(*[1] * n)).dim() for n in (1, 2, 1, 1, 2, 1) for f in fs]
    return found, [c.frame_count for c in counters]


def dynamic_after_a_recompile():
    f, counter = counted(lambda x: x * x.shape[0], torch.ones(2))
    return [f(torch.ones(n)).tolist() for n in (3, 4, 5, 5, 2, 1, 0, 3)], counter.frame_count


def marked_dynamic():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    return [f(x).tolist(), f(torch.ones(9)).tolist()], counter.frame_count


def reset_while_it_is_used():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    found = []
    for _ in range(3):
        torch._dynamo.reset()
        found += [f(torch.ones(2)).tolist() for _ in range(WARM)]
    return found, counter.frame_count


def reset_of_the_code_only():
    def add(x):
        return x + 1

    f, counter = counted(add, torch.ones(2))
    torch._dynamo.eval_frame.reset_code(add.__code__)
    return [f(torch.ones(2)).tolist() for _ in range(WARM)], counter.frame_count


def a_module_dies():
    """Its guard dies with it, and the entry with the guard."""
    box = [torch.nn.Linear(2, 2)]
    torch.nn.init.ones_(box[0].weight)
    f, counter = counted(lambda x: box[0](x), torch.ones(1, 2))
    box[0] = torch.nn.Linear(2, 2)
    torch.nn.init.zeros_(box[0].weight)
    torch.nn.init.zeros_(box[0].bias)
    gc.collect()
    return [f(torch.ones(1, 2)).tolist() for _ in range(WARM)], counter.frame_count


def guards_fail_one_after_the_other():
    settings = {"scale": 1.0}
    f, counter = counted(lambda x: x * settings["scale"], torch.ones(2))
    found = []
    for value in (1.0, 2.0, 2.0, 1.0, 3.0, 1.0):
        settings["scale"] = value
        found.append(f(torch.ones(2)).tolist())
    return found, counter.frame_count


def a_guard_that_raises():
    class Settings:
        broken = False

        @property
        def scale(self):
            if self.broken:
                raise LookupError("broken")
            return 2.0

    settings = Settings()
    f = warm(compile_aot(lambda x: x * settings.scale), torch.ones(2))
    settings.broken = True
    found = [outcome(lambda: f(torch.ones(2)).tolist())[0]]
    settings.broken = False
    return [*found, outcome(lambda: f(torch.ones(2)).tolist())]


# -- tracing and exporting ------------------------------------------------------------------------


def inside_a_tracing_context():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    from torch._guards import TracingContext, tracing

    with tracing(TracingContext(None)):
        found = outcome(lambda: f(torch.ones(2)).tolist())
    return found, f(torch.ones(2)).tolist(), counter.frame_count


def exported_by_dynamo():
    f = warm_add()
    graph, guards = torch._dynamo.export(lambda x: f(x) * 2)(torch.ones(2))
    return [node.op for node in graph.graph.nodes], graph(torch.ones(2)).tolist()


def exported_strictly():
    model = warm(compile_aot(torch.nn.Linear(2, 2)), torch.ones(1, 2))
    return outcome(
        lambda: [
            node.op
            for node in torch.export.export(model, (torch.ones(1, 2),), strict=True).graph.nodes
        ]
    )[0]


def made_by_make_fx():
    f = warm_add()
    from torch.fx.experimental.proxy_tensor import make_fx

    kind, found = outcome(lambda: make_fx(f)(torch.ones(2)))
    return kind, found[:60] if kind != "value" else [n.op for n in found.graph.nodes]


def scripted():
    f = warm_add()
    return outcome(lambda: torch.jit.script(f))[0]


def functionalized():
    f = warm_add()
    return outcome(lambda: torch.func.functionalize(f)(torch.ones(2)).tolist())


# -- functorch ------------------------------------------------------------------------------------


def under_jvp():
    f = warm_add()
    return outcome(
        lambda: [t.tolist() for t in torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),))]
    )


def under_vjp():
    f = warm_add()

    def run():
        value, pull = torch.func.vjp(f, torch.ones(2))
        return value.tolist(), pull(torch.ones(2))[0].tolist()

    return outcome(run)


def under_jacobians():
    f = warm(compile_aot(lambda x: x * x), torch.ones(2))
    return [
        outcome(lambda: transform(f)(torch.ones(2)).tolist())
        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian)
    ]


def under_nested_levels():
    f = warm(compile_aot(lambda x: (x * x).sum()), torch.ones(2))
    return outcome(lambda: torch.vmap(torch.func.grad(f))(torch.ones(3, 2)).tolist())


def transforms_inside():
    f = compile_aot(lambda x: torch.vmap(torch.func.grad(lambda y: (y * y).sum()))(x))
    return [f(torch.ones(3, 2)).tolist() for _ in range(WARM)]


def dual_numbers():
    f = warm_add()
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        kind, found = outcome(lambda: forward_ad.unpack_dual(f(dual)))
        return kind, [each.tolist() for each in found] if kind == "value" else found


def after_a_level_that_raised():
    f = warm_add()
    found = [outcome(lambda: torch.vmap(lambda x: f(x).item())(torch.ones(2)))[0]]
    return [*found, f(torch.ones(2)).tolist(), torch._C._functorch.maybe_current_level()]


# -- stances, graph breaks, switches -----------------------------------------------------------------


def stances_as_decorators():
    f = warm_add()

    @torch.compiler.set_stance("force_eager")
    def run():
        return f(torch.ones(2)).tolist()

    return [run(), f(torch.ones(2)).tolist(), run()]


def stance_as_a_call():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    torch.compiler.set_stance("fail_on_recompile")
    try:
        found = [f(torch.ones(2)).tolist(), outcome(lambda: f(torch.ones(3, 3)))[0]]
    finally:
        torch.compiler.set_stance("default")
    return [*found, f(torch.ones(3, 3)).tolist()], counter.frame_count


def stance_of_the_first_call():
    found = []
    for stance in ("eager_then_compile", "aot_eager_then_compile"):
        with torch.compiler.set_stance(stance):
            f, counter = counted(lambda x: x + 1, torch.ones(2))
            found += [f(torch.ones(n)).tolist() for n in (2, 3, 4)]
            found.append(counter.frame_count)
        found.append(f(torch.ones(2)).tolist())
    return found


def stance_with_fullgraph():
    f = warm_add(fullgraph=True)
    found = []
    for stance in ("eager_on_recompile", "fail_on_recompile", "force_eager"):
        with torch.compiler.set_stance(stance):
            found += [outcome(lambda: f(torch.ones(*[2] * n)).tolist())[0] for n in (1, 2, 3)]
        found.append(f(torch.ones(2)).tolist())
    return found


def stance_that_skips_guards():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        found = [f(torch.ones(2)).tolist() for _ in range(WARM)]
    return [*found, f(torch.ones(2, 2)).tolist()], counter.frame_count


def stance_in_another_thread():
    f = warm_add()
    found = []

    def work():
        with torch.compiler.set_stance("force_eager"):
            found.append(f(torch.ones(2)).tolist())
        found.append(f(torch.ones(2)).tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return [*found, f(torch.ones(2)).tolist()]


def graph_break_inside():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * x

    g, counter = counted(f, torch.ones(2))
    return [g(torch.full((2,), 3.0)).tolist() for _ in range(WARM)], counter.frame_count


def graph_break_by_a_call():
    log = []

    @torch._dynamo.disable
    def outside(x):
        log.append(x.tolist())
        return x

    g, counter = counted(lambda x: outside(x + 1) * 2, torch.ones(2))
    return [g(torch.ones(2)).tolist() for _ in range(WARM)], log, counter.frame_count


def graph_breaks_are_errors():
    def f(x):
        torch._dynamo.graph_break()
        return x + 1

    g = compile_aot(f)
    found = []
    for _ in range(3):
        with torch._dynamo.error_on_graph_break(True):
            found.append(outcome(lambda: g(torch.ones(2)).tolist())[0])
        found.append(outcome(lambda: g(torch.ones(2)).tolist())[0])
    h = warm_add()
    with torch._dynamo.error_on_graph_break(True):
        found += [h(torch.ones(2)).tolist(), h(torch.ones(3, 3)).tolist()]
    return found


def disabled_after_compiling():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    with torch._dynamo.config.patch(disable=True):
        found = [f(torch.ones(2)).tolist(), f(torch.ones(3, 3)).tolist()]
    return [*found, f(torch.ones(2)).tolist()], counter.frame_count


def compiled_with_disable():
    f = compile_aot(lambda x: x + 1, disable=True)
    return [f(torch.ones(2)).tolist() for _ in range(WARM)]


def nested_in_a_disabled_function():
    f = warm_add()
    outer = compile_aot(torch._dynamo.disable(lambda x: f(x) * 2))
    return [outer(torch.ones(2)).tolist() for _ in range(WARM)]


def calls_itself():
    def f(x, n):
        return x if n == 0 else g(x + n, n - 1)

    g = compile_aot(f)
    return [g(torch.ones(2), 3).tolist() for _ in range(WARM)]


def under_inference_mode_then_not():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x * 2), x)
    with torch.inference_mode():
        inside = [f(x).is_inference() for _ in range(WARM)]
    y = f(x)
    y.sum().backward()
    return [*inside, y.requires_grad, x.grad.tolist()]


def deterministic_algorithms():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    torch.use_deterministic_algorithms(True)
    try:
        found = [f(torch.ones(2)).tolist() for _ in range(WARM)]
    finally:
        torch.use_deterministic_algorithms(False)
    return [*found, f(torch.ones(2)).tolist()], counter.frame_count


def default_device():
    f, counter = counted(lambda x: x + torch.ones(2), torch.ones(2))
    with torch.device("meta"):
        found = [outcome(lambda: f(torch.ones(2)).device.type)]
    return [*found, f(torch.ones(2)).tolist()], counter.frame_count


def another_number_of_threads():
    f, counter = counted(lambda x: x + 1, torch.ones(2))
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        found = [f(torch.ones(2)).tolist() for _ in range(WARM)]
    finally:
        torch.set_num_threads(before)
    return [*found, f(torch.ones(2)).tolist()], counter.frame_count


def other_kinds_of_tensors():
    f, counter = counted(lambda x: x * 2, torch.ones(2))
    values = [
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, dtype=torch.float64),
        torch.ones(4)[::2],
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(()),
    ]
    return [
        outcome(lambda: (f(x).tolist(), f(x).stride())) for x in values * 2
    ], counter.frame_count


# -- debuggers and profilers ---------------------------------------------------------------------------


def profiled_by_python():
    f = warm_add()
    events = []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        found = f(torch.ones(2)).tolist()
    finally:
        sys.setprofile(None)
    return found, bool(events)


def legacy_profiler():
    f = warm_add()
    with torch.autograd.profiler.profile() as profile:
        found = f(torch.ones(2)).tolist()
    names = {event.name for event in profile.function_events}
    after = f(torch.ones(2)).tolist()
    return found, after, sorted(name for name in names if not name.startswith("aten"))


def recorded_function():
    f = warm_add()
    with torch.profiler.profile() as profile:
        with torch.autograd.profiler.record_function("mine"):
            f(torch.ones(2))
    return sorted({e.name for e in profile.events() if not e.name.startswith("aten")})


def anomaly_mode():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x.log().sum()), x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            zero = torch.zeros(2, requires_grad=True)
            kind, _ = outcome(lambda: f(zero * 0).backward())
    f(x).backward()
    return kind, x.grad.tolist()


# -- autograd --------------------------------------------------------------------------------------------


def hooks_on_tensors():
    log = []
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x * x), x)
    x.grad = None
    x.register_hook(lambda grad: log.append(("leaf", grad.tolist())))
    y = f(x)
    y.retain_grad()
    y.register_hook(lambda grad: log.append(("output", grad.tolist())) or grad * 2)
    y.grad_fn.register_hook(lambda ins, outs: log.append(("node", len(ins), len(outs))))
    y.sum().backward()
    return log, x.grad.tolist(), y.grad.tolist()


def saved_tensors_are_packed_and_unpacked():
    log = []

    def pack(x):
        log.append("pack")
        return x

    def unpack(x):
        log.append("unpack")
        return x

    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x.exp() * x), x)
    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = f(x)
            log.append("forward done")
        y.sum().backward()
        log.append("backward done")
    with torch.autograd.graph.save_on_cpu():
        f(x).sum().backward()
    return log, x.grad.tolist()


def saved_tensor_hooks_are_forbidden():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x.exp() * x), x)
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        found = outcome(lambda: f(x).sum().backward())
    return found, x.grad.tolist()


def freed_twice():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x.exp() * x), x)
    y = f(x).sum()
    y.backward()
    return outcome(y.backward)


def checkpointed():
    x = torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x: x.exp() * x), x)
    x.grad = None
    torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False).sum().backward()
    return x.grad.tolist()


def grad_of_some_inputs():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    f = warm(compile_aot(lambda x, y: x * y), x, y)
    out = f(x, y).sum()
    first = torch.autograd.grad(out, x, retain_graph=True)[0].tolist()
    with torch.no_grad():
        plain = f(x, y)
    return first, torch.autograd.grad(out, y)[0].tolist(), plain.requires_grad


# -- changes of what runs ------------------------------------------------------------------------------------


def a_global_function_is_patched():
    f = warm(compile_aot(lambda x: add_one(x)), torch.ones(2))
    with unittest.mock.patch(f"{__name__}.add_one", lambda x: x + 5):
        inside = [f(torch.ones(2)).tolist() for _ in range(WARM)]
    return [*inside, f(torch.ones(2)).tolist()]


def the_code_is_replaced():
    def add(x):
        return x + 1

    f = warm(compile_aot(add), torch.ones(2))
    add.__code__ = (lambda x: x + 7).__code__
    return [f(torch.ones(2)).tolist() for _ in range(WARM)]


def an_operator_is_patched():
    f = warm(compile_aot(lambda x: torch.sin(x)), torch.ones(2))
    with unittest.mock.patch.object(torch, "sin", torch.cos):
        inside = [f(torch.ones(2)).tolist() for _ in range(WARM)]
    return [*inside, f(torch.ones(2)).tolist()]


def a_parameter_is_replaced():
    model = torch.nn.Linear(2, 2, bias=False)
    f = warm(compile_aot(model), torch.ones(1, 2))
    model.weight = torch.nn.Parameter(torch.ones(2, 2))
    found = [f(torch.ones(1, 2)).tolist() for _ in range(WARM)]
    model.weight.requires_grad_(False)
    found.append(f(torch.ones(1, 2)).requires_grad)
    model.weight.data = torch.zeros(2, 2)
    return [*found, f(torch.ones(1, 2)).tolist()]


def a_submodule_is_replaced():
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Identity())
    f = warm(compile_aot(model), -torch.ones(2))
    model[0] = torch.nn.Sigmoid()
    found = [f(torch.zeros(2)).tolist() for _ in range(WARM)]
    model.append(torch.nn.Tanh())
    return [*found, f(torch.zeros(2)).tolist()]


def state_is_loaded():
    model = torch.nn.Linear(2, 2)
    f = warm(compile_aot(model), torch.ones(1, 2))
    model.load_state_dict({name: torch.ones_like(v) for name, v in model.state_dict().items()})
    return f(torch.ones(1, 2)).tolist(), sorted(f.state_dict())


def converted_to_another_type():
    model = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(model.weight)
    f = warm(compile_aot(model), torch.ones(1, 2))
    model.double()
    found = [f(torch.ones(1, 2, dtype=torch.float64)).dtype for _ in range(WARM)]
    return [*found, outcome(lambda: f(torch.ones(1, 2)))[0]]


def backward_hook_comes_and_goes():
    model = torch.nn.Linear(2, 2)
    f = warm(compile_aot(model), torch.ones(1, 2))
    log = []
    handle = model.register_full_backward_hook(lambda m, gi, go: log.append("backward"))
    f(torch.ones(1, 2)).sum().backward()
    handle.remove()
    f(torch.ones(1, 2)).sum().backward()
    return log


def always_called_hook():
    model = torch.nn.Linear(2, 2)
    f = warm(compile_aot(model), torch.ones(1, 2))
    log = []
    handle = model.register_forward_hook(lambda *args: log.append("called"), always_call=True)
    found = [outcome(lambda: f(torch.ones(1, 3)))[0], f(torch.ones(1, 2)).shape]
    handle.remove()
    return found, log, f(torch.ones(1, 2)).shape


def keyword_hook():
    class Model(torch.nn.Module):
        def forward(self, x, *, scale=1.0):
            return x * scale

    model = Model()
    f = warm(compile_aot(model), torch.ones(2), scale=2.0)
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"scale": 5.0}), with_kwargs=True
    )
    found = [f(torch.ones(2), scale=2.0).tolist() for _ in range(WARM)]
    handle.remove()
    return [*found, f(torch.ones(2), scale=2.0).tolist()]


CONDITIONS = [
    value
    for value in list(globals().values())
    if callable(value)
    and getattr(value, "__module__", None) == __name__
    and value not in (add_one, warm_add, counted)
]


#: What is not noticed yet.
UNNOTICED = {"the_code_is_replaced": "the direct way keeps the code that it was built for"}


def named(condition):
    reason = UNNOTICED.get(condition.__name__)
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(condition, id=condition.__name__, marks=marks)


@pytest.mark.parametrize("condition", [named(each) for each in CONDITIONS])
@pytest.mark.filterwarnings("ignore")
def test_conditions(condition):
    stock, ours = stock_and_installed(condition)
    assert_same(stock, ours)
