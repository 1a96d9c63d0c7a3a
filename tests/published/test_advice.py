"""Advice is what each published search found."""

from __future__ import annotations

from functools import cache

import pytest

from framebench.analysis.peaks import find_fault, read_evidence
from framebench.analysis.results import Results
from framebench.analysis.searches import Searches
from framebench.budget.advise.advice import Candidate, Question, advise
from framebench.records.record import parse_case
from framebench.records.search import Fit
from framebench.suite.case import Case
from tests.advice_records import everything
from tests.processes import ROOT

MIB = 2**20
SEARCHES = Results(ROOT / "results").searches
evidence = cache(read_evidence)  # one reading for all searches of a workload
EVERY = sorted(SEARCHES.fits, key=lambda fit: (fit.case, fit.budget_bytes))


def asked_as(fit: Fit, searches: Searches, batch: int | None = None) -> Candidate:
    """What is advised of the same case and budget; none where its records now have no numbers, or
    an effect not proven.
    """
    case = parse_case(fit.case)
    rows, _ = evidence(ROOT / "results", fit.provenance.machine, case.workload, case.scenario)
    question = Question(
        case.workload, case.scenario, fit.budget_bytes, (case.framework,), batch, case.size
    )
    if all(
        find_fault(r)
        for r in rows
        if (r.framework, r.strategy, r.size) == (case.framework, case.strategy, case.size)
    ):
        pytest.skip(f"{case.id}: its records give nothing to advise")
    (offer,) = (
        o
        for o in everything(advise([rows], question, searches))
        if o.case.strategy == case.strategy
    )
    return offer


@pytest.mark.parametrize("fit", EVERY, ids=lambda fit: f"{fit.case} {fit.budget_bytes // MIB} MiB")
def test_advice_is_what_the_committed_search_found(fit: Fit) -> None:
    """At the largest batch, and at every batch that was tried; without the search no prediction
    goes beyond it.
    """
    offer = asked_as(fit, SEARCHES)
    assert (offer.case.batch, offer.fits, offer.judge) == (fit.largest, True, "search")
    for probe in fit.probes:
        assert asked_as(fit, SEARCHES, probe.batch).fits == (probe.outcome == "fits"), probe.batch
    predicted = asked_as(fit, KeptOnly(SEARCHES.fits))
    assert predicted.judge != "search"
    assert not predicted.fits or predicted.case.batch <= (fit.largest or 0)


class KeptOnly(Searches):
    """They tell what a process keeps, and nothing of what fitted."""

    def select_fits(self, case: Case) -> list[Fit]:
        return []
