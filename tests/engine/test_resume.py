"""What a session has measured already is not measured again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from framebench.engine.blocks import Listener, measure, measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_groups
from framebench.engine.timed_process import Variant
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.engine.fake_blocks import CASES, by_strategy, group, run, written


class Interrupting(Listener):
    """Ctrl-C after so many records, or in a phase's beginning."""

    def __init__(self, records: int = 99, phases: int = 9999) -> None:
        self.records, self.phases = records, phases

    def phase(self, case: Case, what: str) -> None:
        self.phases -= 1
        if self.phases < 0:
            raise KeyboardInterrupt

    def done(self, record: Record) -> None:
        self.records -= 1
        if not self.records:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [{"records": 1}, {"records": 2}, {"phases": 8}, {"phases": 2}])
def test_resume_repeats_nothing_that_is_done(
    at: dict[str, int], fake_worker: Environment, results: Path, event_log: Path
) -> None:
    """Interrupted in the rounds it begins anew; once they are over, what lacks is memory and
    records.
    """
    with pytest.raises(KeyboardInterrupt), run(results, listener=Interrupting(**at)) as opened:
        measure([group(fake_worker, CASES[:3])], opened)
    kept = list(store.read_all(results))
    over = len(written(event_log, "finish")) == 3
    with run(results) as opened:
        measure([group(fake_worker, CASES[:3])], opened)
    found = by_strategy(results)
    assert {r.status for r in found.values()} == {"ok"}
    assert all(r in found.values() for r in kept)
    assert len(written(event_log, "finish")) == 3, "the rounds of a block are run through once"
    assert over or not kept
    assert all(r.peaks for r in found.values())
    assert not (results / ".unfinished").exists()


def test_finished_block_is_not_measured_again(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    for _ in range(2):
        with run(results) as opened:
            measure([group(fake_worker, CASES[:2])], opened, blocks=2)
    assert len(written(event_log, "finish")) == 4
    with run(results) as opened:
        measure([group(fake_worker, CASES[:3])], opened, blocks=2)
    assert Counter(written(event_log, "finish")) == {"fp32": 4, "checkpoint": 2, "accumulate": 2}, (
        "the new one with its baseline"
    )


def test_baseline_that_joins_later_is_measured_once(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    """As PyTorch's in a block whose variants were measured before it was there; and another version
    has blocks of its own.
    """
    variants = [Variant(case, fake_worker) for case in CASES[:2]]
    with run(results) as opened:
        measure_group(Group("g", (variants[1],)), opened)
        measure_group(Group("g", (variants[0], variants[1])), opened)
        measure_group(Group("g", (variants[0], variants[1])), opened)
    assert Counter(written(event_log, "finish")) == {"checkpoint": 2, "fp32": 1}
    blocks = {r.turns.block for r in store.read_all(results) if r.turns}
    assert blocks == {"s/g/0.0", "s/g/0.1"}
    newer = replace(fake_worker, version="1")
    (one,), (other,) = (
        make_groups(CASES[:1], {"torch": fake_worker}),
        make_groups(CASES[:1], {"torch": newer}),
    )
    assert one.name != other.name


@pytest.mark.parametrize("text", ["", "{", "[]", '{"case": "x"}'])
def test_a_damaged_unfinished_record_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / "0-0.json").write_text(text)
    assert store.read_unfinished(tmp_path) == []


def test_record_finished_before_the_interruption_is_not_written_twice(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    """Interrupted after the record was written, and before its unfinished one was removed."""
    variant = Variant(CASES[0], fake_worker)
    with run(results) as opened:
        measure([group(fake_worker, CASES[:1])], opened)
        (record,) = opened.records(variant)
        store.write_unfinished(record, opened.unfinished_folder(variant))
        measure([group(fake_worker, CASES[:1])], opened)
        assert opened.records(variant) == [record]
