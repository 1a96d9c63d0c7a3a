"""What float64 itself says about how well a verified value can be known: tolerances are no wider than rounding makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from framebench.suite.selectors import parse
from framebench.suite.tolerance import measured
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
MOVED = PROGRAMS / "tolerances_moved.py"
FAR = 30  # times: a step rounds some hundred times, its weights are moved once


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    ["resnet50/torch/train/accumulate_8/b8/tiny", "resnet50/torch/train/fp32/b4/tiny", "unet3d/torch/train/fp32/b4/tiny"],
)
def test_honest_errors_are_what_half_an_ulp_in_the_weights_does(case: str, environment: dict[str, Environment]) -> None:
    """Batch norm over few values (eight micro-batches of one sample) is so ill-conditioned that float64 itself moves as far."""
    moved = run_inside(environment["torch"], MOVED, case)
    rounding = measured(parse(case).workload, "fp32")["torch"][parse(case).golden_key]
    assert isinstance(moved, dict)
    for kind in ("gradient", "momentum", "buffer"):  # the change of a weight is rounded with the weight
        for family, (_, projections) in moved.get(kind, {}).items():
            assert rounding[kind][family][1] < FAR * max(projections, 6e-8), (kind, family)
