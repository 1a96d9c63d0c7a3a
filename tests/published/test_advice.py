"""Advice is what each published search found."""

from __future__ import annotations

from functools import cache

import pytest

from framebench.analysis.peaks import read_evidence
from framebench.analysis.results import Results
from framebench.analysis.searches import Searches
from framebench.budget.advise.advice import Candidate, Question, advise
from framebench.records.record_base import parse_case
from framebench.records.search import Fit
from framebench.suite.case import Case
from tests.processes import ROOT

MIB = 2**20
SEARCHES = Results(ROOT / "results").searches
evidence = cache(read_evidence)  # one reading for all searches of a workload
EVERY = sorted(SEARCHES.fits, key=lambda fit: (fit.case, fit.budget_bytes))


def find_offer(fit: Fit, searches: Searches, batch: int | None = None) -> Candidate:
    """Return what is advised of the case of a search within its budget.

    The test is skipped where the case's records now have no numbers, or no proven effect.
    """
    case = parse_case(fit.case)
    rows, _ = evidence(ROOT / "results", fit.provenance.machine, case.workload, case.scenario)
    question = Question(
        case.workload,
        case.scenario,
        fit.budget_bytes,
        frameworks=(case.framework,),
        strategies=frozenset({case.strategy}),
        batch=batch,
        size=case.size,
    )
    advice = advise([rows], question, searches)
    if advice.left_out and not advice.candidates:
        pytest.skip(f"{case.id}: its records give nothing to advise")
    (offer,) = advice.candidates
    return offer


@pytest.mark.parametrize("fit", EVERY, ids=lambda fit: f"{fit.case} {fit.budget_bytes // MIB} MiB")
def test_advice_agrees_with_the_committed_search(fit):
    """At the largest batch, and at every batch that was tried; without the search no prediction
    goes beyond it.
    """
    offer = find_offer(fit, SEARCHES)
    assert (offer.case.batch, offer.fits, offer.judged_by) == (fit.largest, True, "search")
    assert fit.probes
    for probe in fit.probes:
        assert find_offer(fit, SEARCHES, probe.batch).fits == (probe.outcome == "fits"), probe.batch
    predicted = find_offer(fit, KeptOnly(SEARCHES.fits))
    assert predicted.judged_by != "search"
    assert not predicted.fits or predicted.case.batch <= (fit.largest or 0)


class KeptOnly(Searches):
    """Searches that tell what a process keeps, and nothing of what fitted."""

    def select_fits(self, case: Case) -> list[Fit]:
        return []
