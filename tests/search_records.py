"""Searches for the largest batch, by hand."""

from __future__ import annotations

from typing import Any

from framebench.records.search import Fit, Probe
from framebench.suite.case import Case
from tests.fake_records import provenance

CASE = Case.from_id("transformer/torch/train/fp32/b1/cpu")


def make_search(
    budget: int = 100, largest_batch: int = 4, case: Case = CASE, kept: int = 7, **origin: Any
) -> Fit:
    """Return a search that found this largest batch: one sample more needs too much."""
    probes = [
        Probe(batch=largest_batch, outcome="fits", kept_bytes=kept),
        Probe(batch=largest_batch + 1, outcome="memory"),
    ]
    return Fit(
        case=case.id,
        budget_bytes=budget,
        status="found",
        answer="",
        largest=largest_batch,
        probes=probes,
        provenance=provenance(**origin),
    )
