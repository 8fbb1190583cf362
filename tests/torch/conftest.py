"""Torch tests need torch; every test starts with empty Dynamo caches."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@pytest.fixture
def no_refusals(caplog):
    """The test fails when anything stayed generic."""
    caplog.set_level("WARNING", logger="bcspec")
    yield
    refused = [record.getMessage() for record in caplog.records if record.name.startswith("bcspec")]
    assert not refused, refused
