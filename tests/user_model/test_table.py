"""Test the sentences below the table of `framebench try`."""

from __future__ import annotations

from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.result import Mathematics, Verification
from framebench.user_model.table import beside, checked_in_float64, table, with_libraries
from tests.handmade import RIGHT, frame, record


def checked(strategy: str, reason: str = "") -> Record:
    """A record whose strategy was run in float64, or was not for a reason."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    outcome = Mathematics(case=case.id, computed=not reason, passed=True, reason=reason or None)
    return record(case, verification=Verification(passed=True, mathematics=outcome))


def test_strategies_that_float64_could_not_check_are_named_once_by_their_reason() -> None:
    casts = "it casts by itself"
    records = [checked("fp32"), checked("checkpoint", casts), checked("accumulate", casts), checked("compile", "no operator")]

    assert checked_in_float64(records) == [
        "1 of 4 strategies were checked in float64",
        "not checked in float64: checkpoint, accumulate: it casts by itself",
        "not checked in float64: compile: no operator",
    ]


def test_the_newest_record_of_a_strategy_counts() -> None:
    records = [checked("fp32", "no operator"), checked("fp32")]
    assert checked_in_float64(records) == ["1 of 1 strategies were checked in float64"]


def test_records_without_the_check_have_no_sentence() -> None:
    assert checked_in_float64([record(verification=Verification(passed=True))]) == []


def test_a_table_without_times_has_no_columns_for_them() -> None:
    case = Case("transformer", "torch", "train", "fp32", 4, "tiny")
    for times, shown in (({}, False), ({"step_s": [0.1]}, True)):
        found = record(case, peaks={"host.rss": 2**20}, **times, **RIGHT)
        told = beside([found])
        heads = table(with_libraries(frame(found), told), {}, told).head
        assert ("step ms" in heads, "verified" in heads) == (shown, True)
