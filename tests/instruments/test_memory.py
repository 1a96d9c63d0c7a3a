"""What the suite exists to show, shown: strategies move the peak, and fresh repeats of a measurement agree."""

from __future__ import annotations

import pytest

from framebench.instruments.host import HostPeak
from tests.conftest import Steady

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HostPeak.available(), reason="needs a writable /proc/self/clear_refs"),
]
OWN = {"torch": "host.rss", "jax": "compiler.plan", "jittor": "allocator.in_use"}


def test_strategies_move_the_peak_of_a_transformer(steady: Steady) -> None:
    cases = ("train/fp32", "train/checkpoint", "train/accumulate", "eval/grad", "eval/no_grad")
    found = {c: steady(f"transformer/torch/{c}/b4/cpu")[0]["host.rss"] for c in cases}
    assert found["train/checkpoint"] < 0.75 * found["train/fp32"], found
    assert found["train/accumulate"] < 0.75 * found["train/fp32"], found
    assert found["eval/grad"] > 1.5 * found["eval/no_grad"], found


@pytest.mark.parametrize(
    ("framework", "processes"), [("torch", 3), *(pytest.param(f, 2, marks=pytest.mark.all_cells) for f in ("jax", "jittor"))]
)
def test_fresh_repeats_agree(framework: str, processes: int, steady: Steady) -> None:
    """Two processes show whether a counter or a plan is exact; resident memory may scatter."""
    found = [peaks[OWN[framework]] for peaks in steady(f"transformer/{framework}/train/fp32/b4/cpu", processes)]
    assert max(found) / min(found) <= 1.01, found
