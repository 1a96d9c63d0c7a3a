"""Each committed file is a record of the kind that belongs into its folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from framebench.claims.probed_record import Probed
from framebench.devices.releases.reported import Reported
from framebench.explain.record import Explanation
from framebench.ranks.predicted import Prediction
from framebench.records.search import Fit
from framebench.versions.bisection_record import Bisection
from tests.processes import ROOT

RESULTS = ROOT / "results"
# by the folder below a results folder, in which every feature keeps its own kind; planned ones are
# read by test_planned.py
KINDS: dict[str, type[BaseModel]] = {
    "claims": Probed,
    "planned_reports": Reported,
    "explained": Explanation,
    "fits": Fit,
    "predicted": Prediction,
    "bisected": Bisection,
}


def list_texts(place: str) -> Iterator[str]:
    """Yield the text of each record: a file, or a line of one."""
    for file in sorted((RESULTS / place).rglob("*.json*")):
        if file.suffix == ".jsonl":
            yield from file.read_text().splitlines()
        else:
            yield file.read_text()


@pytest.mark.parametrize("place", KINDS)
def test_every_committed_record_can_be_parsed(place):
    texts = list(list_texts(place))
    assert texts
    for text in texts:
        KINDS[place].model_validate_json(text)
