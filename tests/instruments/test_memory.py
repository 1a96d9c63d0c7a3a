"""What the suite exists to show, shown: strategies move the peak, and fresh repeats of a
measurement agree.
"""

from __future__ import annotations

import pytest

from framebench.instruments.host import HostPeak
from tests.conftest import Steady

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not HostPeak.is_available(), reason="needs a writable /proc/self/clear_refs"
    ),
]
OWN = {"torch": "host.rss", "jax": "compiler.plan", "jittor": "allocator.in_use"}


@pytest.mark.parametrize(
    ("strategy", "base", "at_most"),
    [
        ("train/checkpoint", "train/fp32", 0.75),
        pytest.param("train/accumulate", "train/fp32", 0.75, marks=pytest.mark.all_cases),
        pytest.param("eval/no_grad", "eval/grad", 0.67, marks=pytest.mark.all_cases),
    ],
)
def test_strategies_move_the_peak_of_a_transformer(
    strategy: str, base: str, at_most: float, steady: Steady
) -> None:
    peak, other = (
        steady(f"transformer/torch/{name}/b4/cpu")[0]["host.rss"] for name in (strategy, base)
    )
    assert peak < at_most * other


@pytest.mark.parametrize(
    ("framework", "processes"),
    [("torch", 2), *(pytest.param(f, 2, marks=pytest.mark.all_cases) for f in ("jax", "jittor"))],
)
def test_fresh_repeats_agree(framework: str, processes: int, steady: Steady) -> None:
    """Two processes show whether a counter or a plan is exact; resident memory may scatter."""
    found = [
        peaks[OWN[framework]]
        for peaks in steady(f"transformer/{framework}/train/fp32/b4/cpu", processes)
    ]
    assert max(found) / min(found) <= 1.01, found
