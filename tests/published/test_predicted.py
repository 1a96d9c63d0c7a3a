"""Predictions that are published."""

from __future__ import annotations

import json

from framebench.ranks.sharding_tables import load_predictions, tabulate_predictions
from tests.processes import ROOT


def test_committed_rank_predictions_are_all_in_the_table() -> None:
    files = sorted((ROOT / "results" / "predicted").glob("*.json"))
    assert files
    for path in files:
        assert json.loads(path.read_text())["case"].replace("/", ".") == path.stem
    predictions = load_predictions(ROOT / "results")
    assert len(tabulate_predictions(predictions).rows) == len(files)
