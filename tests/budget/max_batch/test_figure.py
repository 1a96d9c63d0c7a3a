"""The figure of the largest batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.budget.max_batch.figure import draw_largest, read_searches
from framebench.records import store
from framebench.records.search import Fit
from tests.figure_records import MIB, origin, panels, texts


def test_the_largest_batches_come_from_the_searches(tmp_path: Path) -> None:
    for strategy, batch, status in (
        ("fp32", 8, "found"),
        ("checkpoint", 32, "open"),
        ("accumulate", None, "none"),
    ):
        found = Fit(
            case=f"transformer/torch/train/{strategy}/b1/cpu",
            budget_bytes=256 * MIB,
            status=status,
            answer="",
            largest=batch,
            provenance=origin("torch"),
        )
        store.append(found, tmp_path / "fits" / found.provenance.machine / "torch-1.jsonl")
    (tmp_path / "fits" / found.provenance.machine / "broken.jsonl").write_text("{")
    with pytest.warns(UserWarning, match="broken"):
        figure = draw_largest(read_searches(tmp_path, found.provenance.machine))
    assert [t.get_text() for t in panels(figure)[0].texts] == [
        "32 or more",
        "8",
        "not even the smallest",
    ]
    assert "PyTorch checkpoint fits the largest batch, 32 or more" in texts(figure)[0]
