"""What the suite exists to show, shown: strategies move the peak, and fresh repeats of a
measurement agree.
"""

import pytest

from tests.marks import needs_host_peak, rarely

pytestmark = [pytest.mark.slow, needs_host_peak]


@pytest.mark.parametrize(
    ("strategy", "base", "at_most"),
    [
        ("train/checkpoint", "train/fp32", 0.75),
        rarely("train/accumulate", "train/fp32", 0.75),
        rarely("eval/no_grad", "eval/grad", 0.67),
    ],
)
def test_strategies_move_the_peak_of_a_transformer(strategy, base, at_most, steady):
    (changed,) = steady(f"transformer/torch/{strategy}/b4/cpu")
    (baseline,) = steady(f"transformer/torch/{base}/b4/cpu")
    assert changed["host.rss"] < at_most * baseline["host.rss"]


@pytest.mark.parametrize(
    ("framework", "instrument"),
    [
        ("torch", "host.rss"),
        rarely("jax", "compiler.plan"),
        rarely("jittor", "allocator.in_use"),
    ],
)
def test_the_peaks_of_two_processes_agree(framework, instrument, steady):
    one, other = steady(f"transformer/{framework}/train/fp32/b4/cpu", processes=2)
    assert one[instrument] == pytest.approx(other[instrument], rel=0.01)
