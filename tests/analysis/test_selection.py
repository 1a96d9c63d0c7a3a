"""Which record of a case counts: the rule alone, on records made by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.frames import make_rows
from framebench.analysis.selection import (
    Measured,
    select_case,
    select_cases,
    select_current,
    select_one_version,
)
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record
from framebench.suite.result import Verification
from tests.fake_records import (
    CASE,
    change_provenance,
    make_blocks,
    make_crash_without_version,
    make_measured,
    record,
)


def make_later(original: Record) -> Record:
    """Return the record as if it had been made a year later."""
    return change_provenance(original, measured_at="2027-01-01T00:00:00Z")


def make_three_blocks() -> list[Record]:
    """Return three blocks of one case, the first of which has a peak."""
    return make_blocks([(CASE, [[1.0], [2.0], [3.0]])], peaks=[100])


def test_the_peak_is_of_the_newest_record_that_has_one():
    first, second, third = make_three_blocks()
    older = change_provenance(first, measured_at="2025-01-01T00:00:00Z")
    (case,) = select_cases([third, second, first, older])
    blocks = (older, first, second, third)
    assert case == Measured(newest=third, record=first, peaked=(older, first), timed=blocks)


def test_a_block_of_fewer_than_three_rounds_has_a_peak_and_no_times_that_count():
    (full,) = make_blocks([(CASE, [[1.0, 1.0, 1.0]])])
    (short,) = make_blocks([(CASE, [[9.0, 9.0, math.nan]])], peaks=[100])
    later = make_later(short)
    assert select_case([full, later]) == Measured(
        newest=later, record=later, peaked=(later,), timed=(full,)
    )
    (row,) = make_rows([short])
    assert (row.peak_bytes, row.step_time_s, row.samples, row.blocks) == (100, None, 0, 0)


def test_the_error_of_a_case_is_that_of_the_block_that_verified_its_tensors():
    whole = Verification(passed=True, relative_error={"loss_0": 1e-8, "grad_norm": 1e-3})
    losses = Verification(passed=True, verified_in="s/g/0.0", relative_error={"loss_0": 1e-8})
    first = record(step_s=[1.0], verification=whole)
    later = make_later(record(step_s=[1.0], verification=losses))
    (row,) = make_rows([first, later])
    assert row.worst_error == 1e-3
    assert row.verified


def test_a_case_that_no_longer_runs_has_no_numbers():
    first, second, third = make_three_blocks()
    crash = make_later(second.model_copy(update={"status": "crashed"}))
    assert select_case([first, second, third, crash]) == Measured(
        newest=crash, record=crash, peaked=(), timed=()
    )


@pytest.mark.parametrize("changes", [{"memory_limit": 2**20}, {"planted": {"spin": 0.05}}])
def test_records_under_a_limit_or_with_planted_slowdowns_do_not_count(changes):
    free = record()
    limited = make_later(change_provenance(record(status="oom"), **changes))
    assert [case.newest for case in select_cases([free, limited])] == [free]


def test_the_pinned_version_counts_or_else_the_one_measured_last():
    old = change_provenance(record(), versions={"torch": find_pinned_version("torch")})
    new = make_later(change_provenance(record(), versions={"torch": "9.9.9"}))
    newest = change_provenance(new, versions={"torch": "1.0"}, measured_at="2028-01-01T00:00:00Z")
    assert select_one_version([new, old]) == [old]
    assert select_one_version([newest, new]) == [newest]


def test_a_crash_without_a_version_is_replaced_by_a_newer_record():
    crash = make_crash_without_version("checkpoint", when="2025-01-01T00:00:00Z")
    newer = make_measured("checkpoint", 100, origin={"measured_at": "2026-01-01T00:00:00Z"})
    assert select_one_version([crash, newer]) == [newer]


def test_a_newer_crash_without_a_version_replaces_its_case():
    older = make_measured("checkpoint", 100, origin={"measured_at": "2026-01-01T00:00:00Z"})
    crash = make_crash_without_version("checkpoint", when="2027-01-01T00:00:00Z")
    assert [case.newest for case in select_cases([crash, older])] == [crash]


@pytest.fixture
def old_cases() -> list[Record]:
    """Return two cases that were measured under the first protocol."""
    cases = [make_measured("fp32", 200), make_measured("checkpoint", 200)]
    return [change_provenance(case, protocol=1) for case in cases]


def test_the_newest_protocol_counts_on_each_machine(old_cases):
    """An older one does not count, not even of another case."""
    newer = change_provenance(old_cases[0], protocol=2)
    other_machine = change_provenance(old_cases[1], machine="n")
    assert select_current([newer, *old_cases, other_machine]) == [newer, other_machine]


def test_unsupported_records_of_a_newer_protocol_do_not_hide_older_measurements(old_cases):
    unsupported = change_provenance(record(status="unsupported"), protocol=2)
    assert select_current([unsupported, *old_cases]) == old_cases


@st.composite
def draw_records(draw: st.DrawFn) -> list[Record]:
    """Return records of one case that differ in everything that selects them."""
    records = []
    for minute in draw(st.lists(st.integers(0, 500), min_size=1, max_size=8, unique=True)):
        peaks = draw(st.sampled_from([[], [100 + minute]]))
        (drawn,) = make_blocks([(CASE, [[1.0]])], peaks=peaks)
        changes = {"status": draw(st.sampled_from(["ok", "ok", "ok", "oom"]))}
        if draw(st.booleans()):
            changes |= {"turns": None, "step_s": []}
        measured_at = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
        changed = change_provenance(
            drawn.model_copy(update=changes),
            measured_at=measured_at.isoformat(),
            versions={"torch": draw(st.sampled_from(["1", "2"]))},
            session=draw(st.sampled_from("abc")),
            protocol=draw(st.integers(1, 2)),
            memory_limit=draw(st.sampled_from([None, None, None, 2**20])),
        )
        records.append(changed)
    return records


@given(draw_records(), st.randoms())
def test_the_order_of_files_does_not_matter(records, random):
    shuffled = random.sample(records, len(records))
    assert select_cases(shuffled) == select_cases(records)


@given(draw_records())
def test_each_version_is_a_case(records):
    cases = select_cases(records)
    versions = {str(record.framework_version) for record in select_current(records)}
    assert [case.newest.framework_version for case in cases] == sorted(versions)
