"""Predictions that are published."""

from __future__ import annotations

import json

from framebench.ranks import sharding_tables as tables
from tests.processes import ROOT


def test_committed_rank_predictions_are_all_in_the_table() -> None:
    files = sorted((ROOT / "results" / "predicted").glob("*.json"))
    for path in files:
        assert json.loads(path.read_text())["case"].replace("/", ".") == path.stem
    (table,) = tables.predictions(ROOT / "results")
    assert len(table.rows) == len(files)
