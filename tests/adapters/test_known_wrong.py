"""A fault of a framework: the operator alone shows it, and the cases that meet it are `wrong`."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

# It repeats the adapter's own trial in other code.
PROGRAMS = Path(__file__).parent / "programs"
WEIGHT_GRADIENT = PROGRAMS / "known_wrong_weight_gradient.py"


def test_a_small_volumes_weight_gradient_is_unwritten_memory_in_bfloat16(
    environment: dict[str, Environment],
) -> None:
    """U-Net's lowest level at `cpu` has 2x2x2 voxels.

    Should this fail because PyTorch became right, then the adapter's trial says so too, and may be
    deleted.
    """
    report = run_inside(environment["torch"], WEIGHT_GRADIENT)
    assert isinstance(report, dict)
    relative_errors, faults = report["off"], report["faults"]
    assert relative_errors["float32"] < 1e-5
    assert relative_errors["bfloat16 without oneDNN"] < 1e-2
    fault = faults.pop("train/amp_bf16/b4/cpu")
    assert (fault is not None) == (relative_errors["bfloat16"] > 0.1), (
        "what the operator alone shows is said of the case, and nothing else"
    )
    assert set(faults.values()) == {None}, "no such level, no such precision, no gradient"
    if fault is None:
        pytest.skip(
            "oneDNN takes another kernel on this processor, which is right: it was seen "
            "with AVX512-BF16"
        )
    assert "2x2x2 voxels" in fault
