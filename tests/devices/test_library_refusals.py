"""Questions to `framebench.devices` that are refused before anything is simulated or planned."""

from __future__ import annotations

import pytest

from framebench.devices import UnknownDevice, devices, plan, simulate
from tests.callbacks import ignore


@pytest.mark.parametrize(
    ("device", "options", "error", "message"),
    [
        ("a100-40g", {}, UnknownDevice, "the nearest is a100-40gb"),
        ("tpu-v5e", {}, ValueError, "is a TPU"),
        ("a100-40gb", {"steps": 0}, ValueError, "at least one step"),
        ("a100-40gb", {"ranks": 0}, ValueError, "ranks is 0"),
    ],
)
def test_invalid_questions_are_refused(device, options, error, message):
    with pytest.raises(error, match=message):
        simulate(ignore, device, **options)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "asks the driver for each tensor"),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "the driver's own pool"),
    ],
)
def test_another_allocator_than_the_simulated_one_is_refused(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(NotImplementedError, match=message):
        simulate(ignore, "a100-40gb")


def test_without_the_framework_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr("framebench.devices.find_spec", ignore)
    with pytest.raises(ImportError, match="pip install torch"):
        simulate(ignore, devices()[0])
    with pytest.raises(ImportError, match=r"pip install .jax"):
        plan(ignore, [], "a100-40gb")
