"""Which record of a case counts: the rule alone, on planted records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.selection import (
    comparable_times,
    of_one_protocol,
    of_one_version,
    select_cases,
    select_records,
    select_repeats,
    select_version,
)
from framebench.records.pins import pinned_version
from framebench.records.record import Record
from tests.handmade import died, made, provenance, record


def test_the_newest_record_counts() -> None:
    old, new = made("fp32", 200, 1.0), made("fp32", 300, 1.0)
    later = new.model_copy(update={"provenance": provenance(measured_at="2027-01-01T00:00:00Z", versions={"torch": "1"})})
    assert [r.peak_bytes for r in select_records([later, old])] == [300]


@pytest.mark.parametrize(
    ("cpu_s", "changes", "peak"),
    [(0.5, {}, 200), (0.95, {}, 300), (0.5, {"threads": 2}, 300), (0.5, {"protocol": 2}, 300)],
)
def test_a_contended_record_gives_way_to_a_calm_one(cpu_s: float, changes: dict[str, Any], peak: int) -> None:
    """The calm one is older; it counts if the newer one took well more than its CPU time, on one core, by the same protocol."""
    made_at = {"measured_at": "2027-01-01T00:00:00Z", "versions": {"torch": "1"}, "threads": 1, **changes}
    later = made("fp32", 300, 1.0).model_copy(update={"cpu_s_per_step": cpu_s, "provenance": provenance(**made_at)})
    (row,) = select_records([made("fp32", 200, 1.0), later])
    assert row.peak_bytes == peak


def test_rounds_of_a_comparison_give_way_to_a_case_measured_alone() -> None:
    """Newer or not; but they count where there is nothing else, and a case that no longer runs has no numbers."""

    def at(minute: int, session: str, peak: int, **changes: Any) -> Record:
        origin = provenance(measured_at=f"2027-01-01T00:0{minute}:00Z", versions={"torch": "1"}, session=session)
        return made("fp32", peak, 1.0).model_copy(update={"provenance": origin, **changes})

    alone, rounds = at(0, "a", 200), [at(1, "r", 300), at(2, "r", 301)]
    died = at(3, "r", 302, status="crashed")
    assert [r.peak_bytes for r in select_records([alone, *rounds])] == [200]
    assert [r.peak_bytes for r in select_records(rounds)] == [301]
    assert [r.status for r in select_records([alone, *rounds, died])] == ["crashed"]


def test_what_ran_under_a_limit_is_in_no_table() -> None:
    free, limited = (
        record(),
        record(status="oom", provenance=provenance(memory_limit=2**20, measured_at="2027-01-02T00:00:00Z")),
    )
    assert [r.status for r in select_records([free, limited])] == ["ok"]


def test_a_crash_without_a_version_is_forgotten_once_its_case_was_measured_again() -> None:
    (again,) = of_one_version([died(when="2025-01-01T00:00:00Z"), made("checkpoint", 100, 1.0)])
    assert again.status == "ok"
    assert of_one_version([]) == []


def test_a_newer_crash_without_a_version_is_its_cases_one_record() -> None:
    """As any newer failure is; but not one that is older than the case's newest record, be that one contended."""
    calm, crash = made("checkpoint", 100, 1.0), died(when="2027-01-01T00:00:00Z")
    assert [r.status for r in select_cases([crash, calm])] == ["crashed"]
    later = provenance(measured_at="2027-01-02T00:00:00Z", versions={"torch": "1"}, threads=1)
    contended = calm.model_copy(update={"cpu_s_per_step": 0.5, "provenance": later})
    assert contended.contended
    assert select_cases([calm, crash, contended]) == [calm]


def test_of_several_versions_the_pinned_one_counts_or_the_one_measured_last() -> None:
    pinned, (first, second) = pinned_version("torch"), (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    assert select_version("torch", {pinned: first, "9.9.9": second}) == pinned
    assert select_version("torch", {"9.9.9": first, "1.0": second}) == "1.0"


def test_numbers_of_two_protocols_are_not_shown_together() -> None:
    old, new = made("fp32", 200, 1.0), made("checkpoint", 100, 1.0)
    newer = new.model_copy(update={"provenance": provenance(versions={"torch": "1"}, protocol=2)})
    elsewhere = old.model_copy(update={"provenance": provenance(versions={"torch": "1"}, machine="another")})
    assert of_one_protocol([old, newer, elsewhere]) == [newer, elsewhere]


def test_repeats_are_of_one_commit_and_one_hour() -> None:
    def at(hour: int, minute: int, commit: str, session: str) -> Record:
        moment = datetime(2027, 1, 1, hour, minute, tzinfo=UTC)
        origin = provenance(measured_at=moment, versions={"torch": "1"}, commit=commit, session=session)
        return made("fp32", 100, 1.0).model_copy(update={"provenance": origin})

    old_code, long_ago, first, last = at(2, 30, "a", "q"), at(1, 0, "b", "r"), at(2, 0, "b", "s"), at(3, 0, "b", "t")
    assert select_repeats([last, old_code, first, long_ago]) == [first, last]
    assert select_repeats([]) == []


@pytest.mark.parametrize(("minutes", "device", "fair"), [(60, "cpu", True), (61, "cpu", False), (61, "NVIDIA H200", True)])
def test_times_of_a_processor_may_be_compared_within_an_hour(minutes: int, device: str, fair: bool) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert comparable_times(start + timedelta(minutes=minutes), start, device=device) is fair


@st.composite
def several(draw: st.DrawFn) -> list[Record]:
    """Records of one case: any order of moments, statuses, sessions, protocols and limits, contended or not."""
    found = []
    for minute in draw(st.lists(st.integers(0, 500), min_size=1, max_size=8, unique=True)):
        origin = provenance(
            measured_at=(datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)).isoformat(),
            versions={"torch": draw(st.sampled_from(["1", "2"]))}, session=draw(st.sampled_from("abc")), threads=1,
            protocol=draw(st.integers(1, 2)), memory_limit=draw(st.sampled_from([None, None, None, 2**20])),
        )  # fmt: skip
        changes = {"provenance": origin, "cpu_s_per_step": draw(st.sampled_from([0.5, 1.0]))}
        changes |= {"status": draw(st.sampled_from(["ok", "ok", "ok", "oom"]))}
        found.append(made("fp32", 100 + minute, 1.0).model_copy(update=changes))
    return found


@given(several(), st.randoms())
def test_one_row_for_each_version_whatever_the_order_of_the_files(found: list[Record], random: Any) -> None:
    shuffled = random.sample(found, len(found))
    rows = select_records(found)
    assert rows == select_records(shuffled)
    free = [r for r in found if r.provenance.memory_limit is None]
    assert [r.framework_version for r in rows] == sorted({r.framework_version for r in free if r.framework_version})


@given(several())
def test_a_row_with_numbers_is_of_the_newest_protocol_and_contended_only_if_all_are(found: list[Record]) -> None:
    for row in select_records(found):
        free = [r for r in found if r.provenance.memory_limit is None and r.framework_version == row.framework_version]
        newest = max(free, key=lambda r: r.provenance.measured_at)
        assert row.provenance.protocol == newest.provenance.protocol
        assert (row.status == "ok") == (newest.status == "ok"), "a case that no longer runs has no numbers"
        rivals = [r for r in free if r.status == "ok" and r.provenance.protocol == row.provenance.protocol]
        assert row.status != "ok" or row.contended == all(r.contended for r in rivals)
