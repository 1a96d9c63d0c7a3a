"""What a search tells of batches and budgets that it did not try itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.searches import CaseSearches, Searches, load_searches
from framebench.records.search import Fit, Probe
from framebench.suite.case import Case
from framebench.suite.hypothetical import Described
from tests.fake_records import provenance

CASE = Case("transformer", "torch", "train", "fp32", 1, "cpu")


def search(
    budget: int, fits: int, fails: int, case: Case = CASE, kept: int = 7, **origin: Any
) -> Fit:
    """One that found `fits` to be the largest batch."""
    probes = [
        Probe(batch=fits, outcome="fits", kept_bytes=kept),
        Probe(batch=fails, outcome="memory"),
    ]
    return Fit(
        case=case.id,
        budget_bytes=budget,
        status="found",
        answer="",
        largest=fits,
        probes=probes,
        provenance=provenance(**origin),
    )


@pytest.mark.parametrize(
    ("batch", "budget", "fits"),
    [
        (4, 100, True),
        (3, 100, True),
        (4, 200, True),
        (5, 100, False),
        (9, 50, False),
        (5, 101, None),
        (4, 99, None),
    ],
)
def test_a_smaller_batch_needs_no_more_and_a_smaller_budget_holds_no_more(
    batch: int, budget: int, fits: bool | None
) -> None:
    assert CaseSearches([search(100, 4, 5)]).verdict(batch, budget) is fits


def test_where_two_searches_disagree_the_worse_counts() -> None:
    assert CaseSearches([search(100, 8, 9), search(200, 4, 5)]).verdict(6, 150) is False


def test_the_newest_search_counts_and_each_version_and_machine_has_its_own() -> None:
    old, new = search(100, 8, 9, measured_at="2025-01-01T00:00:00Z"), search(100, 4, 5)
    other = search(100, 16, 17, machine="other")
    built = search(100, 2, 3, versions={"torch": "2.12.0+cpu"})
    every = Searches([new, old, other, built])
    assert every.tried(CASE, "m", "2.13.0").fitting(100) == 4
    assert every.tried(CASE, "other", "2.13.0").fitting(100) == 16
    assert every.tried(CASE, "m", "2.12.0").fitting(100) == 2
    assert (
        every.tried(
            Described("transformer", "torch", "train", "fp32", 1, "124M"), "m", "2.13.0"
        ).fits
        == []
    )


def test_what_a_process_keeps_is_that_of_what_resembles_it_most() -> None:
    def case(workload: str, framework: str, strategy: str) -> Case:
        return Case(workload, framework, "train", strategy, 1, "cpu")

    known = {("transformer", "fp32"): 10, ("transformer", "checkpoint"): 30, ("unet3d", "fp32"): 90}
    every = Searches(
        [search(100, 4, 5, case(w, "torch", s), kept) for (w, s), kept in known.items()]
    )
    assert every.kept(case("transformer", "torch", "fp32")) == 10
    assert every.kept(case("transformer", "torch", "accumulate")) == 30
    assert every.kept(case("resnet50", "torch", "fp32")) == 90
    assert every.kept(case("transformer", "jax", "fp32")) is None


def test_what_cannot_be_read_is_named_and_left_out(tmp_path: Path) -> None:
    where = tmp_path / "fits" / "m"
    where.mkdir(parents=True)
    (where / "good.json").write_text(search(100, 4, 5).model_dump_json())
    (where / "broken.json").write_text("{")
    with pytest.warns(UserWarning, match="broken"):
        (found,) = load_searches(tmp_path)
    assert found.largest == 4
