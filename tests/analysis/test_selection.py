"""Which record of a case counts: the rule alone, on planted records."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.frames import make_rows
from framebench.analysis.selection import (
    Measured,
    select_case,
    select_cases,
    select_current,
    select_one_version,
    select_version,
)
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record
from tests.fake_records import CASE, blocks, died, made, provenance, record


def later(r: Record, **changes: Any) -> Record:
    """The same, of a later moment."""
    return changed(r, measured_at="2027-01-01T00:00:00Z", **changes)


def changed(r: Record, **origin: Any) -> Record:
    return r.model_copy(
        update={"provenance": r.provenance.model_copy(update=provenance_of(origin))}
    )


def provenance_of(origin: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(provenance(**origin), name) for name in origin}


def test_the_newest_record_counts() -> None:
    old, new = made("fp32", 200, 1.0), later(made("fp32", 300, 1.0))
    (case,) = select_cases([new, old])
    assert (case.newest, case.read, case.timed) == (new, new, (old, new))


def test_times_are_of_every_block_and_the_peak_is_of_the_newest_that_read_one() -> None:
    found = blocks([(CASE, [[1.0], [2.0], [3.0]])], peaks=[100])
    (case,) = select_cases(reversed(found))
    assert case.newest == found[2]
    assert case.read == found[0]
    assert case.timed == tuple(found)
    elsewhere = [changed(r, session="another", commit="d" * 40) for r in found]
    assert len(select_case([*found, *elsewhere]).timed) == 6, "sessions and commits do not matter"
    old = [changed(r, protocol=1) for r in found]
    (case,) = select_cases([*old, *found])
    assert case.timed == tuple(found), "protocols do"
    planted = [changed(r, planted={"spin": 0.05}) for r in found]
    assert select_cases(planted) == [], "a record of a study is no measurement of the case"


def test_of_a_block_of_two_rounds_the_peaks_count_alone() -> None:
    full = blocks([(CASE, [[1.0]])])
    short = later(blocks([(CASE, [[9.0, 9.0, math.nan]])], peaks=[100])[0])
    case = select_case([*full, short])
    assert (case.newest, case.read, case.timed) == (short, short, tuple(full))
    (row,) = make_rows([short])
    assert (row.peak_bytes, row.step_time_s, row.samples, row.blocks) == (100, None, 0, 0)


def test_a_case_that_no_longer_runs_has_no_numbers() -> None:
    found = blocks([(CASE, [[1.0], [2.0]])], peaks=[100])
    crash = later(found[1].model_copy(update={"status": "crashed"}))
    assert select_case([*found, crash]) == Measured(crash, crash, ())


def test_what_ran_under_a_limit_is_in_no_table() -> None:
    free, limited = (
        record(),
        record(
            status="oom",
            provenance=provenance(memory_limit=2**20, measured_at="2027-01-02T00:00:00Z"),
        ),
    )
    assert [case.newest.status for case in select_cases([free, limited])] == ["ok"]


def test_a_crash_without_a_version_is_forgotten_once_its_case_was_measured_again() -> None:
    (again,) = select_one_version([died(when="2025-01-01T00:00:00Z"), made("checkpoint", 100, 1.0)])
    assert again.status == "ok"
    assert select_one_version([]) == []


def test_a_newer_crash_without_a_version_is_its_cases_one_record() -> None:
    """As any newer failure is; but not one that is older than the case's newest record."""
    right, crash = made("checkpoint", 100, 1.0), died(when="2027-01-01T00:00:00Z")
    assert [case.newest.status for case in select_cases([crash, right])] == ["crashed"]
    again = changed(right, measured_at="2027-01-02T00:00:00Z")
    assert [case.newest for case in select_cases([right, crash, again])] == [again]


def test_of_several_versions_the_pinned_one_counts_or_the_one_measured_last() -> None:
    pinned, (first, second) = (
        find_pinned_version("torch"),
        (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)),
    )
    assert select_version("torch", {pinned: first, "9.9.9": second}) == pinned
    assert select_version("torch", {"9.9.9": first, "1.0": second}) == "1.0"


def test_the_newest_protocol_with_numbers_counts_on_each_machine() -> None:
    """An older one has no place beside it, not even of another case; what has no numbers hides
    none.
    """
    old, other = (
        changed(made(strategy, 200, 1.0), protocol=1) for strategy in ("fp32", "checkpoint")
    )
    new, elsewhere = changed(old, protocol=2), changed(other, machine="n")
    assert select_current([new, old, other, elsewhere]) == [new, elsewhere]
    without = new.model_copy(update={"status": "unsupported"})
    assert select_current([without, old, other]) == [old, other]
    assert select_current([without]) == [without]
    limited = changed(new, memory_limit=2**20)
    assert select_current([limited, old]) == [old], "what does not count hides nothing either"


@st.composite
def several(draw: st.DrawFn) -> list[Record]:
    """Records of one case: any order of moments, statuses, sessions, protocols and limits, in
    blocks or not.
    """
    found = []
    for minute in draw(st.lists(st.integers(0, 500), min_size=1, max_size=8, unique=True)):
        (r,) = blocks([(CASE, [[1.0]])], peaks=draw(st.sampled_from([[], [100 + minute]])))
        changes = {"status": draw(st.sampled_from(["ok", "ok", "ok", "oom"]))}
        changes |= draw(st.sampled_from([{}, {"turns": None, "step_s": []}]))
        origin = {
            "measured_at": (
                datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
            ).isoformat(),
            "versions": {"torch": draw(st.sampled_from(["1", "2"]))},
            "session": draw(st.sampled_from("abc")),
            "protocol": draw(st.integers(1, 2)),
            "memory_limit": draw(st.sampled_from([None, None, None, 2**20])),
        }
        found.append(changed(r.model_copy(update=changes), **origin))
    return found


@given(several(), st.randoms())
def test_one_row_for_each_version_whatever_the_order_of_the_files(
    found: list[Record], random: Any
) -> None:
    shuffled = random.sample(found, len(found))
    cases = select_cases(found)
    assert cases == select_cases(shuffled)
    free = select_current(found)
    assert [c.newest.framework_version for c in cases] == sorted(
        {r.framework_version for r in free if r.framework_version}
    )


@given(several())
def test_numbers_are_of_the_newest_protocol_and_every_block_of_it_counts(
    found: list[Record],
) -> None:
    unlimited = [r for r in found if r.provenance.memory_limit is None]
    protocol = max((r.provenance.protocol for r in unlimited if r.status == "ok"), default=None)
    for case in select_cases(found):
        version = case.newest.framework_version
        assert protocol in (None, case.newest.provenance.protocol)
        free = [
            r
            for r in unlimited
            if (r.framework_version, r.provenance.protocol)
            == (version, case.newest.provenance.protocol)
        ]
        newest = max(free, key=lambda r: r.provenance.measured_at)
        assert case.newest == newest, "a case that no longer runs has no numbers"
        rivals = [r for r in free if r.status == "ok"]
        wanted = [r for r in rivals if r.turns] if newest.status == "ok" else []
        assert sorted(case.timed, key=lambda r: r.provenance.measured_at) == list(case.timed)
        assert {id(r) for r in case.timed} == {id(r) for r in wanted}
        assert case.read.peaks or not any(r.peaks for r in rivals) or newest.status != "ok"
