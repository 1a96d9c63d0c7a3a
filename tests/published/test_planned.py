"""Test that every published prediction can be read and answers for its case without being
recomputed.
"""

from __future__ import annotations

from framebench.devices.catalog import find
from framebench.devices.plans import store
from framebench.devices.plans.planning import find_cached
from framebench.suite.case import Case
from tests.processes import ROOT

RESULTS = ROOT / "results"


def test_every_published_prediction_is_reused() -> None:
    files = sorted((RESULTS / store.FOLDER).glob("*/*.jsonl"))
    lines = sum(len(file.read_text().splitlines()) for file in files)
    assert lines > 1000
    reused = 0
    for file in files:
        predictions = store.read(file)
        (version,) = {one.framework_version for one in predictions.values()}
        cases = [Case.from_id(case) for case in predictions]
        found = find_cached(cases, find(file.parent.name), RESULTS, version)
        assert {case.id: one for case, one in found.items()} == predictions
        reused += len(found)
    assert reused == lines
