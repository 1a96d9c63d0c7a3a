"""The difference of two peaks sums to the byte, whatever the categories explain of it."""

from __future__ import annotations

import pytest

from framebench.explain import against
from tests.explain.explanations import make_explanation

OLD = make_explanation(
    {"compiler.plan": 120, "host.rss": 500},
    ("up.0", "saved", 70),
    ("up.1", "saved", 10),
    ("head", "input", 30),
    version="0.9.2",
)
NEW = make_explanation(
    {"compiler.plan": 215},
    ("up.0", "saved", 70),
    ("up.1", "saved", 90),
    ("head", "temporary", 35),
)


def test_rows_have_the_bytes_of_both_peaks_and_the_largest_difference_first():
    assert [tuple(row.values()) for row in against.as_json(OLD, NEW)["rows"]] == [
        ("up.*", "saved", 80, 160, 80),
        ("head", "temporary", 0, 35, 35),
        ("head", "input", 30, 0, -30),
        ("", "unexplained", 10, 20, 10),
    ]


def test_the_rows_sum_to_the_measured_peaks_and_to_their_difference():
    printed = against.as_json(OLD, NEW)
    assert printed["difference"] == 215 - 120
    for column, measured in (("base", 120), ("change", 215), ("difference", 215 - 120)):
        assert sum(row[column] for row in printed["rows"]) == measured, column


def test_the_table_sums_too_when_small_rows_are_folded():
    layers = [(letter, "saved", size) for size, letter in enumerate("abcdefghijklmnopqrst", 1)]
    base = make_explanation({"compiler.plan": 1}, ("a", "saved", 1))
    change = make_explanation({"compiler.plan": 300}, *layers)

    rows = against.make_table(base, change).rows

    differences = [int(cells[-1].replace(",", "")) for cells in rows]
    *parts, whole = differences
    assert whole == 300 - 1
    assert sum(parts) == whole
    folded_and_unexplained = 2
    assert len(parts) == against.LARGEST + folded_and_unexplained
    assert rows[-2][1] == "unexplained"


@pytest.mark.parametrize(
    ("instrument", "compared"),
    [("host.rss", ("host.rss", 500, 9)), ("allocator.in_use", ("the account", OLD.peak.bytes, 5))],
)
def test_peaks_are_compared_by_a_shared_instrument_or_else_by_the_account(instrument, compared):
    change = make_explanation({instrument: 9}, ("a", "saved", 5))
    assert against.choose_peaks(OLD, change) == compared
