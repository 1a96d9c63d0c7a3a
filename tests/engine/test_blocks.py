"""Blocks: the order of turns, and what is measured when a process dies."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import pytest

from framebench.engine import blocks
from framebench.engine.blocks import measure, measure_group
from framebench.engine.groups import Group, make_groups
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.engine.fake_blocks import (
    CASE,
    CASES,
    STRATEGIES,
    make_group,
    map_by_strategy,
    open_run,
    read_cores,
    read_in_order,
    read_processes,
    read_strategies,
)


def test_each_round_times_every_variant_in_the_order_of_the_seed(fake_worker, results, event_log):
    with open_run(results, Options(rounds=5)) as opened:
        measure([make_group(fake_worker, CASES)], opened)
    first, *_ = store.read_all(results)
    turns = first.turns_taken
    strategies = [parse(case).strategy for case in turns.arms]
    order = random.Random(turns.seed)
    expected = []
    for _ in range(5):
        expected += order.sample(strategies, len(CASES))
    assert read_strategies(event_log, "turn") == expected
    first_round = expected[: len(CASES)]
    assert first_round * 5 != expected, "not always the same order"


def test_records_of_a_block_have_the_times_of_its_turns_and_of_the_reference(fake_worker, results):
    with open_run(results, Options(rounds=5)) as opened:
        measure([make_group(fake_worker, CASES)], opened)
    records = list(store.read_all(results))
    assert len(records) == len(CASES)
    assert len({record.turns_taken.block for record in records}) == 1
    for record in records:
        turns = record.turns_taken
        assert (record.status, turns.round) == ("ok", [0, 1, 2, 3, 4])
        assert turns.arms[turns.arm] == record.case
        assert len(record.step_s) == len(record.instructions) == len(turns.reference_s) == 5
        assert turns.at_s == sorted(turns.at_s)
        assert turns.steps == 5, "as many as make 50 ms"
        assert 0 < min(turns.reference_s) < max(turns.reference_s) < 60
        assert turns.reference_flop > 1e9


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [
        ("hang in turn", "timeout", "did not end within 10 s"),
        ("exception in turn", "crashed", "planted"),
        ("wrong in the end", "wrong", "^$"),  # the failing worker gives no reason for it
        ("slow", "timeout", "a step takes 99.0 s"),
    ],
)
def test_failed_variant_leaves_the_others_running(
    failure, status, reason, fake_worker, results, monkeypatch
):
    monkeypatch.setenv("FAKE_FAILURE", f"checkpoint: {failure}")
    # long enough for the other processes to start on a busy machine
    time_limit_s = 10 if "hang" in failure else 600
    with open_run(results, Options(rounds=5, time_limit_s=time_limit_s)) as opened:
        measure([make_group(fake_worker, CASES)], opened)
    records = map_by_strategy(results)
    failed = records.pop("checkpoint")
    assert failed.status == status
    assert re.search(reason, failed.reason)
    assert (failed.step_s, failed.turns_taken.round, failed.peaks) == ([], [], {})
    check_complete(records, "fp32", "accumulate", "amp_bf16")


def test_death_of_a_memory_process_leaves_the_other_variants_running(
    fake_worker, results, monkeypatch
):
    monkeypatch.setenv("FAKE_FAILURE", "checkpoint: kill in memory")
    with open_run(results, Options(rounds=5)) as opened:
        measure([make_group(fake_worker, CASES)], opened)
    records = map_by_strategy(results)
    failed = records.pop("checkpoint")
    assert failed.status == "crashed"
    assert "memory worker: ended by SIGKILL" in failed.reason
    check_complete(records, "fp32", "accumulate", "amp_bf16")


def check_complete(records: dict[str, Record], *strategies: str) -> None:
    """Check that these strategies alone have records, with the times of five rounds and a peak."""
    assert sorted(records) == sorted(strategies)
    for record in records.values():
        assert (record.status, len(record.step_s), bool(record.peaks)) == ("ok", 5, True)


BFLOAT16_INSTRUCTIONS = "framebench.engine.runner.provenance.list_bfloat16_instructions"


def test_timeout_names_missing_bfloat16_units(fake_worker, results, monkeypatch):
    monkeypatch.setattr(BFLOAT16_INSTRUCTIONS, Mock(return_value=set()))
    monkeypatch.setenv("FAKE_FAILURE", "amp_bf16: slow, checkpoint: slow")
    with open_run(results) as opened:
        measure([make_group(fake_worker)], opened)
    records = map_by_strategy(results)
    assert "no bfloat16 units here" in (records["amp_bf16"].reason or "")
    assert "bfloat16" not in (records["checkpoint"].reason or "")


def test_without_rounds_each_block_verifies_and_one_reads_memory(fake_worker, results, event_log):
    """The second group's baseline is the first one's."""
    groups = [
        make_group(fake_worker),
        make_group(fake_worker, [replace(CASE, strategy="accumulate_8")]),
    ]
    for blocks_in_all in (1, 2):
        with open_run(results, Options(rounds=0)) as opened:
            measure(groups, opened, blocks=blocks_in_all)
        records = list(store.read_all(results))
        counts = Counter(record.parsed.strategy for record in records)
        assert counts == dict.fromkeys([*STRATEGIES, "accumulate_8"], blocks_in_all)
        for record in records:
            assert (record.status, record.step_s, record.first_step_s) == ("ok", [], None)
            assert record.verification
        assert len([record for record in records if record.peaks]) == 5, "once in a session"
    assert not read_strategies(event_log, "turn")


def test_blocks_use_fresh_processes_and_read_memory_once(fake_worker, results, event_log):
    with open_run(results) as opened:
        measure([make_group(fake_worker, CASES[:2])], opened, blocks=3)
    records = read_in_order(results)
    assert len({record.turns_taken.block for record in records}) == 3
    timed_processes = set(read_processes(event_log, "start"))
    assert len(timed_processes) == 2 * 3, "one for each of two cases in each of three blocks"
    assert sorted(read_strategies(event_log, "memory")) == ["checkpoint", "fp32"]
    for case in CASES[:2]:
        first, second, third = [record for record in records if record.case == case.id]
        assert first.peaks
        assert not second.peaks
        assert not third.peaks


def test_later_blocks_verify_only_the_losses_of_what_the_first_verified_whole(fake_worker, results):
    with open_run(results) as opened:
        measure([make_group(fake_worker, CASES[:1])], opened, blocks=3)
    first, *later = read_in_order(results)
    assert first.verification.verified_in is None
    assert len(later) == 2
    for record in later:
        assert record.verification.verified_in == first.turns_taken.block


def test_a_block_after_one_that_failed_is_verified_whole(fake_worker, results, monkeypatch):
    groups = [make_group(fake_worker, CASES[:1])]
    monkeypatch.setenv("FAKE_FAILURE", "wrong in the end")
    with open_run(results) as opened:
        measure(groups, opened)
        monkeypatch.setenv("FAKE_FAILURE", "work")
        measure(groups, opened, blocks=2)
    failed, passed = read_in_order(results)
    assert (failed.status, passed.status) == ("wrong", "ok")
    assert passed.verification.verified_in is None


@pytest.mark.parametrize("cold_blocks", [1, 3])
def test_first_steps_are_timed_in_the_blocks_that_compile_anew(cold_blocks, fake_worker, results):
    with open_run(results, Options(rounds=5, cold_blocks=cold_blocks)) as opened:
        measure([make_group(fake_worker, CASES[:1])], opened, blocks=4)
    first_steps = [record.first_step_s for record in read_in_order(results)]
    assert first_steps == [0.5] * cold_blocks + [None] * (4 - cold_blocks)


def test_later_blocks_build_and_verify_on_every_core(fake_worker, results, event_log, monkeypatch):
    """In the first block each is alone until it is ready, and its turns are always on one core."""
    monkeypatch.setattr("os.sched_getaffinity", Mock(return_value={0, 3, 7}))
    with open_run(results) as opened:
        measure([make_group(fake_worker, CASES)], opened, blocks=2)
    built = read_cores(event_log, "start")
    assert built[: len(CASES)] == ["7", "7", "7", "7"]
    # four variants on three cores, the largest first: 7, 3, 0, and 7 again
    assert Counter(built[len(CASES) :]) == {"7": 2, "3": 1, "0": 1}
    # so in both blocks
    assert Counter(read_cores(event_log, "finish")) == {"7": 2 * 2, "3": 2 * 1, "0": 2 * 1}
    assert {record.provenance.core for record in store.read_all(results)} == {7}


@pytest.mark.parametrize("parallel_memory_runs", [1, 2])
def test_the_same_case_may_be_two_variants(
    parallel_memory_runs, fake_worker, results, event_log, monkeypatch
):
    """Each has a memory process of its own, also where the first record is written before the
    second variant's memory process starts (one at a time).
    """
    monkeypatch.setattr(blocks, "count_memory_processes", Mock(return_value=parallel_memory_runs))
    variant = Variant(CASE, fake_worker)
    with open_run(results, Options(rounds=3)) as opened:
        for _ in range(2):  # the second time there is nothing to do
            measure_group(Group("a/a", (variant, variant)), opened)
    one, other = store.read_all(results)
    assert {one.turns_taken.arm, other.turns_taken.arm} == {0, 1}
    assert one.peaks
    assert other.peaks
    assert len(read_strategies(event_log, "memory")) == 2


def test_a_group_has_the_baselines_of_its_framework_and_of_pytorch(fake_worker):
    case = replace(CASE, strategy="checkpoint")
    jax_case = replace(case, framework="jax")
    jax_base = replace(CASE, framework="jax")
    jax = replace(fake_worker, framework="jax")

    of_jax, of_torch = make_groups([jax_case, case], {"torch": fake_worker, "jax": jax})
    assert list_cases(of_torch.always) == [CASE]
    assert list_cases(of_torch.others) == [case]
    assert list_cases(of_jax.always) == [CASE, jax_base]

    (without_torch,) = make_groups([jax_case], {"jax": jax})
    assert list_cases(without_torch.always) == [jax_base]


def list_cases(variants: tuple[Variant, ...]) -> list[Case]:
    return [variant.case for variant in variants]
