"""Predictions that are published."""

from __future__ import annotations

import json
import re

from framebench.features.devices.fit.fitting import UNJUDGED
from framebench.features.ranks import sharding_tables as tables
from tests.processes import ROOT


def test_kept_predictions_are_of_their_case_and_all_in_the_table() -> None:
    files = sorted((ROOT / "results" / "predicted").glob("*.json"))
    for path in files:
        assert json.loads(path.read_text())["case"].replace("/", ".") == path.stem
    (table,) = tables.predictions(ROOT / "results")
    assert len(table.rows) == len(files)


def test_what_is_allowed_for_in_jax_is_more_than_a_card_of_our_own_was_off_by() -> None:
    """At full size, by the table of predictions that were made without it."""
    rows = [
        line.split(" | ") for line in (ROOT / "docs/devices.md").read_text().splitlines() if line.startswith("| h200-141gb |")
    ]
    off = [abs(float(row[6].rstrip("%"))) / 100 for row in rows if re.fullmatch(r"\w+/jax/\S+/full", row[1]) and "%" in row[6]]
    assert len(off) >= 3
    assert max(off) < UNJUDGED["jax"]
