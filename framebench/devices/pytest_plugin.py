"""A fixture for tests of other projects: what a training step needs of a GPU, without one.

    def test_a_step_fits_an_l4(gpu_memory):
        step = gpu_memory("l4-24gb", make_step)
        assert step.needs < 22 * GiB

It is there wherever framebench is installed: pytest finds it by the entry point `pytest11`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    # a test run that does not use the fixture waits for no import of it
    from framebench.devices.simulation.torch_simulate import Simulation


@pytest.fixture(scope="session")
def gpu_memory() -> Callable[..., Simulation]:
    """Return a function that simulates a step: `gpu_memory(device, make_step, **options)`.

    Its options and its result are those of `framebench.devices.simulate`. A test is skipped where
    PyTorch is not installed.
    """
    pytest.importorskip("torch", reason="framebench simulates PyTorch's steps with PyTorch")
    from framebench.devices import simulate

    def simulate_on(device: str, make_step: Callable[..., Any], **options: Any) -> Simulation:
        return simulate(make_step, device, **options)

    return simulate_on
