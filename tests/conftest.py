"""Settings shared by all tests."""

import sys

import pytest
from hypothesis import settings

# Machines are shared and slow in phases: a deadline per example would only measure the neighbours.
settings.register_profile("bcspec", deadline=None)
settings.load_profile("bcspec")

#: WebAssembly has neither processes nor threads (`tests/py314`).
STARTS_PROCESSES = sys.platform not in ("emscripten", "wasi")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests marked `processes` where nothing can be started."""
    skip = pytest.mark.skip(reason="this platform starts neither processes nor threads")
    for item in items if not STARTS_PROCESSES else ():
        if item.get_closest_marker("processes") is not None:
            item.add_marker(skip)
