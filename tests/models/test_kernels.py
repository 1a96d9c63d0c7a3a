"""What docs/batches.md says of the kernels that PyTorch chooses by the batch."""

import platform
from pathlib import Path

import pytest

from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="other kernels on other architectures"
)


@on_x86
def test_convolutions_of_fewer_than_sixteen_samples_are_computed_without_onednn(environment):
    """On one thread, in float32: 33 of ResNet-50's 53, the 1x1 convolutions of stride 1."""
    program = PROGRAMS / "count_slow_convolutions.py"
    counts = run_inside(environment["torch"], program, "4", "8", "15", "16", "32")
    assert counts["fp32"] == {"4": 33, "8": 33, "15": 33, "16": 0, "32": 0}
    assert set(counts["two threads"].values()) == {0}
    assert set(counts.get("amp_bf16", {}).values()) <= {0}


@on_x86
def test_volumes_are_computed_without_onednn_one_at_a_time(environment):
    """All 23 of U-Net's; of several at a time at most the last one, whose kernel has one voxel."""
    program = PROGRAMS / "count_slow_volume_convolutions.py"
    counts = run_inside(environment["torch"], program, "1", "2", "4")
    assert counts == {"1": {"1": 23, "2": 1, "4": 1}, "2": {"1": 23, "2": 0, "4": 0}}
