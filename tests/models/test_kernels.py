"""What docs/batches.md says of the kernels that PyTorch chooses by the batch."""

import platform
from pathlib import Path

import pytest

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "count_slow_convolutions.py"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other kernels on other architectures")
def test_convolutions_of_fewer_than_sixteen_samples_are_computed_without_onednn(environment):
    """On one thread, in float32: 33 of ResNet-50's 53, the 1x1 convolutions of stride 1."""
    counts = run_inside(environment["torch"], PROGRAM, "4", "8", "15", "16", "32")
    assert counts["fp32"] == {"4": 33, "8": 33, "15": 33, "16": 0, "32": 0}
    assert set(counts["two threads"].values()) == {0}
    assert set(counts.get("amp_bf16", {}).values()) <= {0}
