"""Test that every published prediction can be read and answers for its case without being
recomputed. A refusal that the planners have an answer for now is the exception.
"""

from framebench.devices.catalog import find
from framebench.devices.plans import store
from framebench.devices.plans.planning import find_cached
from framebench.devices.plans.version import is_refusal_current
from framebench.suite.case import Case
from tests.processes import ROOT

RESULTS = ROOT / "results"


def test_every_published_prediction_is_reused():
    reused = 0
    for file in sorted((RESULTS / store.FOLDER).glob("*/*.jsonl")):
        predictions = store.read(file)
        assert len(predictions) == len(file.read_text().splitlines()), "each line can be read"
        (version,) = {prediction.framework_version for prediction in predictions.values()}
        cases = []
        for case, prediction in predictions.items():
            is_answer = prediction.outcome != "not planned"
            if is_answer or is_refusal_current(prediction.origin.code, prediction.reason or ""):
                cases.append(Case.from_id(case))
        cached = find_cached(cases, find(file.parent.name), RESULTS, version)
        for case in cases:
            assert cached[case] == predictions[case.id]
        reused += len(cached)
    assert reused > 1000
