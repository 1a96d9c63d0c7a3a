"""However a run ends, the next one loses no record, and writes none of them again."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from framebench.engine.blocks import measure
from framebench.engine.environments import Environment
from framebench.records import store
from framebench.records.record import Record
from tests.engine.fake_blocks import CASES, make_group, open_run
from tests.kills import is_killed_at_call
from tests.marks import rarely
from tests.record_files import list_files

# How a worker of the fake framework may end: `failing_worker.py`
ENDINGS = ("refusal", "kill", "silent exit", "kill in turn", "kill in memory", "wrong in the end")


def measure_all(results: Path, environment: Environment, blocks: int) -> None:
    """Measure two cases in the session of the other runs."""
    with open_run(results) as opened:
        measure([make_group(environment, CASES[:2])], opened, blocks=blocks)


def read_records(results: Path) -> list[Record]:
    return list(store.read_all(results))


@pytest.mark.slow
@pytest.mark.parametrize("blocks_in_all", [1, rarely(2)])
@pytest.mark.filterwarnings("ignore::framebench.records.lines.RecordWarning")
def test_a_kill_between_any_two_writes_costs_no_record(blocks_in_all, fake_worker, tmp_path):
    """A variant whose times were lost is measured again, next to a baseline, in another block."""
    cases = {CASES[0].id, CASES[1].id}
    for number in count(1):
        results = tmp_path / f"results-{number}"
        measure_session = partial(measure_all, results, fake_worker, blocks_in_all)
        was_killed = is_killed_at_call(number, results, measure_session)
        written_before_the_kill = read_records(results)
        measure_session()

        records = read_records(results)
        for record in written_before_the_kill:
            assert record in records
        blocks = {case: [] for case in cases}
        for record in records:
            assert record.status == "ok"
            blocks[record.case].append(record.turns_taken.block)
        of_baseline, of_variant = blocks[CASES[0].id], blocks[CASES[1].id]
        assert len(of_baseline) == len(set(of_baseline)), "one record of a case in each block"
        assert len(of_variant) == len(set(of_variant)) == blocks_in_all
        assert set(of_baseline) == set(of_variant)
        assert {record.case for record in records if record.peaks} == cases
        assert not (results / ".unfinished").exists()
        (file,) = list_files(results)
        assert file.read_bytes().count(b"\n") == len(records), "nothing is left of a torn line"
        if not was_killed:
            break
    assert number > 10 * blocks_in_all, "it was killed at the writes of each record"


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_of_a_worker_leaves_one_record(ending, fake_worker, results, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", f"fp32: work, checkpoint: {ending}")
    measure_all(results, fake_worker, blocks=1)
    first = read_records(results)
    assert Counter(record.parsed.strategy for record in first) == {"fp32": 1, "checkpoint": 1}
    measure_all(results, fake_worker, blocks=1)
    assert read_records(results) == first
