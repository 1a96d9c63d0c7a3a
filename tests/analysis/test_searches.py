"""What a search tells of batches and budgets that it did not try itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.analysis.results import Results
from framebench.analysis.searches import CaseSearches, KeptBytes, Searches, load_searches
from framebench.analysis.tables import make_strategy_tables
from framebench.records import provenance as provenance_of_records
from framebench.records import store
from framebench.records.search import Probe
from framebench.suite.case import Case
from framebench.suite.hypothetical import DescribedCase
from tests.fake_records import make_measured
from tests.record_files import add_records
from tests.search_records import CASE, make_search


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
def test_a_search_answers_for_smaller_batches_and_larger_budgets(batch, budget, fits):
    """Within a budget of 100 bytes batch 4 fits, and batch 5 does not."""
    assert (
        CaseSearches([make_search(budget=100, largest_batch=4)]).check_fits(batch, budget) is fits
    )


def test_a_batch_that_fails_without_a_limit_too_is_not_known_to_be_too_large():
    search = make_search(budget=100, largest_batch=4)
    failed = Probe(batch=5, outcome="failed", reason="no kernel for this shape")
    stopped = search.model_copy(update={"status": "stopped", "confirmation": failed})
    searches = CaseSearches([stopped])
    assert searches.check_fits(5, 100) is None
    assert searches.find_largest_failing(5) is None
    assert searches.check_fits(4, 100) is True


@pytest.mark.parametrize(
    ("machine", "version", "largest"),
    [("m", "2.13.0", 4), ("other", "2.13.0", 16), ("m", "2.12.0", 2)],
)
def test_each_machine_and_version_has_its_newest_search(machine, version, largest):
    searches = Searches(
        [
            make_search(largest_batch=4),
            make_search(largest_batch=8, measured_at="2025-01-01T00:00:00Z"),
            make_search(largest_batch=16, machine="other"),
            make_search(largest_batch=2, versions={"torch": "2.12.0+cpu"}),
        ]
    )
    assert searches.find_searches(CASE, machine, version).find_largest_fitting(100) == largest


def test_a_machine_without_searches_has_those_of_its_kind_of_device():
    on_gpu = make_search(machine="other", hardware={"device": "a GPU"})
    searches = Searches([on_gpu, make_search(largest_batch=16, machine="third")])
    same_device = searches.find_searches(CASE, "m", "2.13.0", "a GPU")
    assert same_device.fits == [on_gpu]


def test_a_model_that_is_only_described_was_never_searched():
    described = DescribedCase("transformer", "torch", "train", "fp32", 1, "124M")
    assert Searches([make_search()]).find_searches(described, "m", "2.13.0").fits == []


def make_case(workload: str, framework: str, strategy: str) -> Case:
    return Case(workload, framework, "train", strategy, 1, "cpu")


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        (make_case("transformer", "torch", "fp32"), KeptBytes(10, True)),
        # the most of the workload
        (make_case("transformer", "torch", "accumulate"), KeptBytes(30, False)),
        # the most of the framework
        (make_case("resnet50", "torch", "fp32"), KeptBytes(90, False)),
        (make_case("transformer", "jax", "fp32"), None),
    ],
    ids=["same strategy", "same workload", "same framework", "other framework"],
)
def test_untracked_memory_is_that_of_the_most_similar_search(case, kept):
    searches = Searches(
        [
            make_search(case=make_case("transformer", "torch", "fp32"), kept=10),
            make_search(case=make_case("transformer", "torch", "checkpoint"), kept=30),
            make_search(case=make_case("unet3d", "torch", "fp32"), kept=90),
        ]
    )
    assert searches.find_kept(case) == kept


def test_searches_that_cannot_be_read_are_named_and_left_out(tmp_path):
    store.append(make_search(largest_batch=4), tmp_path / "fits" / "m" / "torch-1.jsonl")
    (tmp_path / "fits" / "m" / "broken.jsonl").write_text("{")
    with pytest.warns(UserWarning, match="broken"):
        (found,) = load_searches(tmp_path)
    assert found.largest == 4


@pytest.mark.parametrize(
    ("framework", "kept", "lender"),
    [
        ("torch", KeptBytes(30, True), "theirs"),
        ("jax", KeptBytes(5, True), None),
        ("jittor", None, None),
    ],
)
def test_published_searches_say_what_is_kept_where_the_folder_has_none_of_the_framework(
    framework, kept, lender
):
    published = Searches([make_search(kept=30, machine="theirs")])
    own = Searches([make_search(case=replace(CASE, framework="jax"), kept=5)], published)
    case = replace(CASE, framework=framework)
    assert (own.find_kept(case), own.name_lender(case)) == (kept, lender)


def test_published_searches_do_not_say_whether_a_batch_fits():
    own = Searches([], Searches([make_search()]))
    assert own.find_searches(CASE, "m", "2.13.0").fits == []


def test_a_folder_without_searches_names_whose_it_takes(tmp_path, monkeypatch):
    published = tmp_path / "published"
    monkeypatch.setattr(provenance_of_records, "PUBLISHED", published)
    search = make_search(kept=2**20, machine="theirs")
    store.append(search, published / "fits" / "theirs" / "torch-2.13.0.jsonl")
    own = tmp_path / "own"
    add_records(own, make_measured("fp32", 2**20, size="cpu"))

    rows = Results(own).table("m")

    (row,) = rows.itertuples()
    assert (row.kept_bytes, row.kept_lender) == (2**20, "theirs")
    assert row.needs_bytes == pytest.approx(1.05 * 2**21, rel=1e-6)
    (table, *_) = make_strategy_tables(rows)
    assert "from published searches on theirs" in table.caption
