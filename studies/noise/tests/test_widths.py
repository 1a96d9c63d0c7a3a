"""How many published ratios of step times are decided: counted by width and by blocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from framebench.suite.case import Case
from studies.noise.widths import comparison
from tests.fake_records import make_blocks

BASE, CHECKPOINT = (
    Case("transformer", "torch", "train", strategy, 4, "cpu") for strategy in ("fp32", "checkpoint")
)
JAX, ELSEWHERE = (
    Case("transformer", "jax", "train", "fp32", 4, "cpu"),
    Case("transformer", "torch", "train", "fp32", 4, "tiny"),
)


def counted(strays: Sequence[float], change: Case = CHECKPOINT) -> list[tuple[str, ...]]:
    """Of two variants whose ratio strays so from block to block."""
    found = make_blocks([(BASE, [[1.0] * 5] * len(strays)), (change, [[s] * 5 for s in strays])])
    return [row[1:] for row in comparison(found).rows]


@pytest.mark.parametrize(
    ("strays", "counts"),
    [
        ([1.0, 1.005, 0.995, 1.0, 1.005], ("1", "1", "100%", "0", "0")),
        ([0.7, 1.3, 0.8, 1.2, 1.0], ("1", "0", "0%", "1", "0")),
        ([1.0, 1.005], ("1", "0", "0%", "0", "1")),
    ],
)
def test_ratios_are_counted_by_width_and_blocks(
    strays: Sequence[float], counts: tuple[str, ...]
) -> None:
    assert counted(strays) == [("its baseline", *counts)]


def test_frameworks_are_counted_apart_and_other_sizes_not_at_all() -> None:
    assert counted([1.0] * 3, JAX) == [("PyTorch", "1", "1", "100%", "0", "0")]
    assert counted([1.0] * 3, ELSEWHERE) == []
