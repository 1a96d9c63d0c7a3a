"""Advice is what each published search found."""

from __future__ import annotations

from functools import cache

import pytest

from framebench.analysis.frames import Row
from framebench.analysis.peaks import find_fault, read_evidence
from framebench.analysis.results import Results
from framebench.analysis.searches import Searches
from framebench.budget.advise.advice import Candidate, Question, advise
from framebench.records.record_base import parse_case
from framebench.records.search import Fit
from framebench.suite.case import Case
from tests.advice_records import list_candidates
from tests.processes import ROOT

MIB = 2**20
SEARCHES = Results(ROOT / "results").searches
evidence = cache(read_evidence)  # one reading for all searches of a workload
EVERY = sorted(SEARCHES.fits, key=lambda fit: (fit.case, fit.budget_bytes))


def find_offer(fit: Fit, searches: Searches, batch: int | None = None) -> Candidate:
    """Return what is advised of the same case and budget.

    The test is skipped where the case's records now have no numbers, or no proven effect.
    """
    case = parse_case(fit.case)
    machine = fit.provenance.machine
    rows, _ = evidence(ROOT / "results", machine, case.workload, case.scenario)
    faults = [find_fault(row) for row in rows if is_of(row, case)]
    if all(faults):
        pytest.skip(f"{case.id}: its records give nothing to advise")
    budget, frameworks = fit.budget_bytes, (case.framework,)
    question = Question(case.workload, case.scenario, budget, frameworks, batch, case.size)
    candidates = list_candidates(advise([rows], question, searches))
    (offer,) = [candidate for candidate in candidates if candidate.case.strategy == case.strategy]
    return offer


def is_of(row: Row, case: Case) -> bool:
    """Return whether a row is of this case at any batch."""
    same = (case.framework, case.strategy, case.size)
    return (row.framework, row.strategy, row.size) == same


@pytest.mark.parametrize("fit", EVERY, ids=lambda fit: f"{fit.case} {fit.budget_bytes // MIB} MiB")
def test_advice_agrees_with_the_committed_search(fit: Fit) -> None:
    """At the largest batch, and at every batch that was tried; without the search no prediction
    goes beyond it.
    """
    offer = find_offer(fit, SEARCHES)
    assert (offer.case.batch, offer.fits, offer.judge) == (fit.largest, True, "search")
    for probe in fit.probes:
        assert find_offer(fit, SEARCHES, probe.batch).fits == (probe.outcome == "fits"), probe.batch
    predicted = find_offer(fit, KeptOnly(SEARCHES.fits))
    assert predicted.judge != "search"
    assert not predicted.fits or predicted.case.batch <= (fit.largest or 0)


class KeptOnly(Searches):
    """Searches that tell what a process keeps, and nothing of what fitted."""

    def select_fits(self, case: Case) -> list[Fit]:
        return []
