"""What is left of the wrappers: frames and calls, counted with a profile function."""

import contextlib
import sys

import pytest
import torch

import bcspec
import bcspec.torch

#: Calls after which everything is specialised.
WARM = 8

MODES = {
    "no_grad": (torch.no_grad, False),
    "grad": (contextlib.nullcontext, True),
    "inference": (torch.inference_mode, False),
}


def events(call):
    """(kind, name) of every frame entered and C function called."""
    seen = []

    def profile(frame, event, argument):
        if event == "call":
            seen.append(("frame", frame.f_code.co_name))
        elif event == "c_call":
            seen.append(("C", argument.__name__))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def inside_disable(seen):
    """What runs between the `disable` wrapper around the graph, if it is there, and the kernel's return."""
    wrappers = [i for i, event in enumerate(seen) if event == ("frame", "_fn")]
    inner = seen[wrappers[-1] :] if wrappers else seen
    first = next(i for i, event in enumerate(inner) if event == ("frame", "forward"))
    last = max(i for i, event in enumerate(inner) if event == ("C", "kernel"))
    tail = next((i for i, e in enumerate(inner[last:]) if e == ("C", "set_eval_frame")), len(inner))
    return inner[first : last + tail]


def warm(mode):
    context, requires_grad = MODES[mode]
    with context():
        x = torch.randn(4, requires_grad=requires_grad)
        compiled = torch.compile(lambda x: x + 1, backend=bcspec.torch.backend())
        # Dynamo's own wrapper, which the direct way leaves out.
        generic = compiled.__closure__[0].cell_contents.generic
        for _ in range(WARM):
            generic(x)
        return inside_disable(events(lambda: generic(x)))


@pytest.mark.parametrize("mode, frames", [("no_grad", 1), ("inference", 1), ("grad", 2)])
def test_frames_between_disable_and_kernel(mode, frames):
    seen = warm(mode)
    assert sum(kind == "frame" for kind, _ in seen) == frames, seen


@pytest.mark.parametrize("mode", ["no_grad", "inference"])
def test_no_generic_work_is_left(mode):
    called = {name for _, name in warm(mode)}
    assert "kernel" in called
    assert not called & {"extend", "isinstance", "len", "nullcontext", "append", "clear"}


def test_the_stock_chain_is_long():
    """The measuring itself: without bcspec the same count is far higher."""
    compiled = torch.compile(lambda x: x + 1)
    x = torch.randn(4)
    for _ in range(WARM):
        compiled(x)
    seen = inside_disable(events(lambda: compiled(x)))
    assert sum(kind == "frame" for kind, _ in seen) > 10


def graph_wrapper(backend, x):
    """The residual function of the forward wrapper of add one."""
    graphs = []

    def capture(gm, inputs):
        graphs.append(backend(gm, inputs))
        return graphs[-1]

    compiled = torch.compile(lambda x: x + 1, backend=capture)
    for _ in range(WARM):
        compiled(x)
    return bcspec.torch.internals.DisableWrapper.of(graphs[0]).function


def test_explain_fits_on_a_screen():
    text = bcspec.explain(graph_wrapper(bcspec.torch.backend(), torch.randn(4)))
    source = text.split("unfolded:")[0].strip().splitlines()
    assert "_empty_strided_cpu" in text
    assert len(source) < 60, text


def test_original_is_the_generic_wrapper():
    wrapper = graph_wrapper(bcspec.torch.backend(), torch.randn(4))
    generic = bcspec.original(wrapper)
    assert generic is not wrapper
    assert generic.__code__.co_filename == wrapper.__code__.co_filename
    assert wrapper.__name__ == generic.__name__
