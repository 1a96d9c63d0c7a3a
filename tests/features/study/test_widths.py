"""How many published ratios of step times are decided: counted by width and by blocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from framebench.analysis.results import Results
from framebench.features.study.widths import comparison
from framebench.suite.case import Case
from tests.handmade import blocks
from tests.processes import ROOT

BASE, CHECKPOINT = (Case("transformer", "torch", "train", strategy, 4, "cpu") for strategy in ("fp32", "checkpoint"))
JAX, ELSEWHERE = Case("transformer", "jax", "train", "fp32", 4, "cpu"), Case("transformer", "torch", "train", "fp32", 4, "tiny")


def counted(strays: Sequence[float], change: Case = CHECKPOINT) -> list[tuple[str, ...]]:
    """Of two arms whose ratio strays so from block to block."""
    found = blocks([(BASE, [[1.0] * 5] * len(strays)), (change, [[s] * 5 for s in strays])])
    return [row[1:] for row in comparison(found).rows]


@pytest.mark.parametrize(
    ("strays", "counts"),
    [
        ([1.0, 1.005, 0.995, 1.0, 1.005], ("1", "1", "100%", "0", "0")),
        ([0.7, 1.3, 0.8, 1.2, 1.0], ("1", "0", "0%", "1", "0")),
        ([1.0, 1.005], ("1", "0", "0%", "0", "1")),
    ],
)
def test_ratios_are_counted_by_width_and_blocks(strays: Sequence[float], counts: tuple[str, ...]) -> None:
    assert counted(strays) == [("its baseline", *counts)]


def test_what_the_document_says_of_the_goal() -> None:
    text = " ".join((ROOT / "docs/study.md").read_text().split())
    counts: dict[str, list[int]] = {}
    for machine, _, ratios, decided, *_ in comparison(Results(ROOT / "results").records).rows:
        counts[machine] = [a + int(b) for a, b in zip(counts.get(machine, [0, 0]), (decided, ratios))]
    shares = {machine: f"{decided} of {ratios} are ({decided / ratios:.0%})" for machine, (decided, ratios) in counts.items()}
    said = {machine: share.replace("%", " %") for machine, share in shares.items()}
    assert f"On `xeon-2core`, which README shows, {said['xeon-2core']}" in text
    assert f"on `zen4-2core` {said['zen4-2core'].replace(' are', '')}" in text


def test_frameworks_are_counted_apart_and_other_sizes_not_at_all() -> None:
    assert counted([1.0] * 3, JAX) == [("PyTorch", "1", "1", "100%", "0", "0")]
    assert counted([1.0] * 3, ELSEWHERE) == []
