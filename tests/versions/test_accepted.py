"""Regressions that are known and accepted are listed, and do not fail; what grows beyond them
does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.versions.accepted import (
    ACCEPTED,
    AcceptedRegression,
    MalformedEntry,
    read_accepted,
    split_regressions,
)
from framebench.versions.judge import compare_versions
from framebench.versions.newest import ReleasePair, judge_newest
from tests.version_records import larger, originals, rounds

ENTRY = AcceptedRegression(
    release="jax==0.10.2",
    cases="*/jax/train/*",
    quantity="peak memory",
    at_most=1.10,
    reason="reported upstream",
)
BOTH = rounds(originals(1)[0], 5, lambda record, number: larger(record, 1.05))
ROWS = compare_versions(BOTH, "jax==0.9.2", "jax==0.10.2")
CASE = ROWS[0].case


def test_an_accepted_regression_is_known_and_keeps_its_reason() -> None:
    new, known = split_regressions(ROWS, [ENTRY.model_copy(update={"cases": CASE})])
    assert new == []
    assert [(row.quantity, reason) for row, reason in known] == [
        ("peak memory", "reported upstream")
    ]


@pytest.mark.parametrize(
    "difference",
    [
        {"release": "jax==0.10.1"},
        {"cases": "other/*"},
        {"quantity": "step time"},
        {"at_most": 1.04},
    ],
    ids=["another release", "another case", "another quantity", "a larger change"],
)
def test_another_regression_is_new(difference: dict[str, object]) -> None:
    new, known = split_regressions(ROWS, [ENTRY.model_copy(update={"cases": CASE} | difference)])
    assert [row.quantity for row in new] == ["peak memory"]
    assert known == []


def test_the_newest_release_passes_where_all_its_regressions_are_accepted() -> None:
    pair = ReleasePair("jax", "0.9.2", "0.10.2")
    verdict = judge_newest(
        pair, BOTH[::2], BOTH[1::2], accepted=[ENTRY.model_copy(update={"cases": CASE})]
    )
    assert (verdict.outcome, verdict.exit_code) == ("same", 0)
    assert "no new regression" in verdict.answer
    (known,) = verdict.as_dict()["known_regressions"]
    assert known["accepted"] == "reported upstream"


def test_the_committed_file_can_be_read_and_a_missing_one_has_no_entries(tmp_path: Path) -> None:
    assert isinstance(read_accepted(ACCEPTED), list)
    assert read_accepted(tmp_path / "accepted.toml") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[accepted]\n", "accepted.toml: "),
        ('[[accepted]]\nrelease = "jax==1"\n', "entry 1: cases: Field required"),
        ('[[accepted]]\nrelase = "jax==1"\n', "entry 1: "),
    ],
)
def test_a_malformed_entry_is_named(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(text)
    with pytest.raises(MalformedEntry, match=problem):
        read_accepted(file)
