"""`torch.compile(f, backend="bcspec")`, and the same around any other AOTAutograd backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import internals
from .graph import prepare
from .install import BACKEND, backend_is_called, hook
from .layer import enabled


def bcspec(
    gm: Any, example_inputs: Any, mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Inductor with specialised wrappers: the backend behind `backend="bcspec"`.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: its inputs.
        mode: as for `torch.compile`, for Inductor.
        options: as for `torch.compile`, for Inductor.

    Returns:
        The compiled graph.

    Raises:
        What Inductor raises; bcspec itself never does.
    """
    compiled = internals.inductor_wrapper()(mode, options, None)(gm, example_inputs)
    return specialising(compiled)


setattr(bcspec, BACKEND, True)


def specialising(compiled: Any) -> Any:
    """What a bcspec backend returns for what another one has compiled."""
    if not enabled():
        return compiled
    backend_is_called()
    return prepare(compiled)


def backend(inner: str | Callable[..., Any] = "inductor") -> Callable[..., Any]:
    """A backend for `torch.compile` that specialises the wrappers of another backend.

    Args:
        inner: name of an AOTAutograd backend ("inductor", "aot_eager" ...), or the backend itself.

    Returns:
        The backend: `torch.compile(f, backend=bcspec.torch.backend("aot_eager"))`. The same object
        for the same `inner`, since Dynamo's caches know backends by identity.
    """
    hook("backend")
    return bcspec if inner == "inductor" else _around(inner)


@functools.cache
def _around(inner: str | Callable[..., Any]) -> Callable[..., Any]:
    compile_inner = internals.lookup_backend()(inner)

    def around(gm: Any, example_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
        return specialising(compile_inner(gm, example_inputs, **kwargs))

    name = inner if isinstance(inner, str) else getattr(inner, "__name__", "backend")
    around.__name__ = f"bcspec_{name}"
    setattr(around, BACKEND, True)
    return around
