"""What a session has measured already is not measured again."""

from collections import Counter
from dataclasses import replace

import pytest

from framebench.engine import unfinished
from framebench.engine.blocks import measure, measure_group
from framebench.engine.groups import Group
from framebench.engine.timed_process import Variant
from framebench.engine.unfinished import UnfinishedRecord
from framebench.records import store
from tests.callbacks import InterruptingListener
from tests.engine.fake_blocks import CASES, make_group, open_run, read_strategies
from tests.fake_records import record


@pytest.mark.parametrize(
    "moment",
    [{"records": 1}, {"records": 2}, {"phases": 6}],
    ids=["after a record", "after two records", "in the rounds"],
)
def test_resumed_session_repeats_nothing_that_is_done(moment, fake_worker, results, event_log):
    """Interrupted in the rounds a block begins again; after them memory and records are missing."""
    listener = InterruptingListener(**moment)
    with pytest.raises(KeyboardInterrupt), open_run(results, listener=listener) as opened:
        measure([make_group(fake_worker, CASES[:3])], opened)
    earlier = list(store.read_all(results))
    assert len(earlier) == moment.get("records", 0)

    with open_run(results) as opened:
        measure([make_group(fake_worker, CASES[:3])], opened)

    records = list(store.read_all(results))
    assert all(record in records for record in earlier)
    assert {record.parsed for record in records if record.peaks} == set(CASES[:3])
    assert len(records) == 3
    assert len(read_strategies(event_log, "finish")) == 3, "a block's rounds are finished once"
    assert not (results / ".unfinished").exists()


def test_added_case_is_measured_with_its_baseline(fake_worker, results, event_log):
    for cases in (CASES[:2], CASES[:3]):
        with open_run(results) as opened:
            measure([make_group(fake_worker, cases)], opened)
    counts = Counter(read_strategies(event_log, "finish"))
    assert counts == {"fp32": 2, "checkpoint": 1, "accumulate": 1}


def test_baseline_that_joins_later_is_measured_once(fake_worker, results, event_log):
    """PyTorch's baseline may be added to a block when its other cases have been measured."""
    base = Variant(CASES[0], fake_worker)
    change = Variant(CASES[1], fake_worker)
    with open_run(results) as opened:
        measure_group(Group("g", (change,)), opened)
        for _ in range(2):
            measure_group(Group("g", (base, change)), opened)
    assert Counter(read_strategies(event_log, "finish")) == {"checkpoint": 2, "fp32": 1}
    blocks = {record.turns_taken.block for record in store.read_all(results)}
    assert blocks == {"s/g/0.0", "s/g/0.1"}


def test_each_release_of_a_framework_has_blocks_of_its_own(fake_worker):
    older = make_group(fake_worker, CASES[:1])
    newer = make_group(replace(fake_worker, version="1"), CASES[:1])
    assert older.name != newer.name


CUT_OFF = "cut off"  # what was written without its last bytes


@pytest.mark.parametrize("content", ["", "{", '{"environment": "torch-0"}\n', CUT_OFF])
def test_block_whose_unfinished_records_are_damaged_is_measured_again(
    content, fake_worker, results
):
    cases = CASES[:2]
    with (
        pytest.raises(KeyboardInterrupt),
        open_run(results, listener=InterruptingListener(1)) as opened,
    ):
        measure([make_group(fake_worker, cases)], opened)
    (file,) = (results / ".unfinished").iterdir()
    if content == CUT_OFF:
        content = file.read_text()[:-9]
    file.write_text(content)

    with open_run(results) as opened:
        measure([make_group(fake_worker, cases)], opened)

    records = list(store.read_all(results))
    assert {record.parsed for record in records} == set(cases)
    for one in records:
        # the peaks of the first case are in the record from before the interruption
        assert one.peaks or one.parsed == cases[0]
    (block,) = {one.turns_taken.block for one in records if one.parsed == cases[1]}
    in_block = [one.parsed for one in records if one.turns_taken.block == block]
    assert sorted(in_block) == sorted(cases), "both are measured again, in one block"


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_block_with_a_damaged_record_is_not_used(damaged, results):
    """The times of a block are compared with each other: alone the other records say nothing."""
    file = unfinished.find_file(results, "session/1")
    block = [UnfinishedRecord(environment="torch-0", record=record(case)) for case in CASES[:2]]
    unfinished.write(block, file)
    texts = file.read_text().splitlines(keepends=True)
    texts[damaged] = "{}\n"
    file.write_text("".join(texts))
    assert unfinished.read(file) == []
