"""Blocks: the order of turns, and what is measured when a process dies or a run is interrupted."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from framebench.engine import blocks, runner
from framebench.engine.blocks import measure, measure_group
from framebench.engine.environments import Environment, describe
from framebench.engine.groups import Group, make_groups
from framebench.engine.runner import DEFAULT_OPTIONS, Options
from framebench.engine.timed_process import ReferenceMatmul, TimedProcess, Variant
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.engine.fake_blocks import (
    CASE,
    CASES,
    STRATEGIES,
    by_strategy,
    group,
    read_cores,
    read_events,
    read_in_order,
    read_strategies,
    run,
)

TORCH = describe("torch")


def test_each_round_runs_every_variant_in_the_order_of_the_seed(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker)], opened)

    records = list(store.read_all(results))
    assert {record.status for record in records} == {"ok"}
    first = records[0].turns_taken
    assert {record.turns_taken.block for record in records} == {first.block}
    assert sorted(record.turns_taken.arm for record in records) == [0, 1, 2, 3]
    for record in records:
        assert first.arms[record.turns_taken.arm] == record.case
    strategies = [parse(case).strategy for case in first.arms]
    order = random.Random(first.seed)
    expected = []
    for _ in range(5):
        expected += order.sample(strategies, 4)
    assert read_strategies(event_log, "turn") == expected
    assert expected[:4] * 5 != expected, "not always the same order"


def test_times_are_paired_with_their_round_and_the_reference_matmul(
    fake_worker: Environment, results: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    for record in store.read_all(results):
        turns = record.turns_taken
        assert turns.round == [0, 1, 2, 3, 4]
        assert len(record.step_s) == len(record.instructions) == 5
        assert len(turns.at_s) == len(turns.reference_s) == 5
        assert turns.at_s == sorted(turns.at_s)
        assert turns.steps == 5, "as many as make 50 ms"
        assert min(turns.reference_s) > 0
        assert max(turns.reference_s) < 60
        assert turns.reference_flop > 1e9


def test_reference_matmul_without_an_answer_has_no_time_in_that_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ReferenceMatmul(DEFAULT_OPTIONS) as matmul:
        matmul.turn(0)
        monkeypatch.setattr(matmul.worker, "receive", lambda *_: {"error": {}})
        matmul.turn(1)
    assert list(matmul.seconds) == [0]


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [
        ("kill in turn", "crashed", "SIGKILL"),
        ("hang in turn", "timeout", "no end after 3 s"),
        ("exception in turn", "crashed", "planted"),
        ("segfault", "crashed", "SIGSEGV"),
        ("silent exit in turn", "crashed", "exit code 3"),
        ("babble in turn", "crashed", "this is not JSON"),
        ("wrong in the end", "wrong", None),
        ("slow", "timeout", "a step takes 99.0 s"),
        ("kill in memory", "crashed", "memory worker: ended by SIGKILL"),
    ],
)
def test_failed_variant_leaves_the_others_running(
    failure: str,
    status: str,
    reason: str | None,
    fake_worker: Environment,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_FAILURE", f"checkpoint: {failure}")
    time_limit_s = 3 if "hang" in failure else 60
    with run(results, Options(rounds=5, time_limit_s=time_limit_s)) as opened:
        measure([group(fake_worker)], opened)
    others = by_strategy(results)
    failed = others.pop("checkpoint")
    assert failed.status == status
    assert reason is None or reason in (failed.reason or "")
    if "memory" not in failure:
        assert (failed.step_s, failed.turns_taken.round, failed.peaks) == ([], [], {})
    for record in others.values():
        assert record.status == "ok"
        assert len(record.step_s) == 5
        assert record.peaks


BFLOAT16_INSTRUCTIONS = "framebench.engine.runner.provenance.list_bfloat16_instructions"


def test_timeout_names_missing_bfloat16_units(
    fake_worker: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BFLOAT16_INSTRUCTIONS, set)
    monkeypatch.setenv("FAKE_FAILURE", "amp_bf16: slow, checkpoint: slow")
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    records = by_strategy(results)
    assert "no bfloat16 units here" in (records["amp_bf16"].reason or "")
    assert "bfloat16" not in (records["checkpoint"].reason or "")
    assert records["fp32"].status == "ok"


def test_first_profile_shortens_the_limit_of_slow_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    bf16 = replace(CASE, strategy="amp_bf16")
    first = Options(profile="first", time_limit_s=300)
    quick = Options(profile="quick")
    monkeypatch.setattr(BFLOAT16_INSTRUCTIONS, set)
    assert runner.limit_time(bf16, first).time_limit_s == 20
    assert runner.limit_time(CASE, first) == first
    assert runner.limit_time(bf16, quick) == quick
    monkeypatch.setattr(BFLOAT16_INSTRUCTIONS, lambda: {"avx512_bf16"})
    assert runner.limit_time(bf16, first) == first


def test_memory_is_not_read_where_the_option_is_off(
    fake_worker: Environment, results: Path
) -> None:
    with run(results, Options(memory=False)) as opened:
        measure([group(fake_worker)], opened)
    for record in by_strategy(results).values():
        assert record.status == "ok"
        assert record.step_s
        assert not record.peaks


def test_without_rounds_each_case_is_verified_and_its_memory_read_once(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    added = replace(CASES[0], strategy="accumulate_8")
    groups = [group(fake_worker), group(fake_worker, [added])]
    with run(results, Options(rounds=0)) as opened:
        measure(groups, opened)
    records = by_strategy(results)
    assert set(records) == {*STRATEGIES, "accumulate_8"}, "the second group's baseline is the same"
    for record in records.values():
        assert record.status == "ok"
        assert record.peaks
        assert record.verification
        assert (record.step_s, record.first_step_s) == ([], None)
    assert not read_strategies(event_log, "turn")
    assert len(read_strategies(event_log, "memory")) == 5


def test_without_rounds_a_second_block_has_each_case_once_more(
    fake_worker: Environment, results: Path
) -> None:
    groups = [group(fake_worker), group(fake_worker, [replace(CASES[0], strategy="accumulate_8")])]
    for blocks_in_all in (1, 2):
        with run(results, Options(rounds=0)) as opened:
            measure(groups, opened, blocks=blocks_in_all)
    counts = Counter(record.parsed.strategy for record in store.read_all(results))
    assert counts == dict.fromkeys([*STRATEGIES, "accumulate_8"], 2)


def test_blocks_use_fresh_processes_and_read_memory_once(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker, CASES[:2])], opened, blocks=3)
    records = read_in_order(results)
    assert len({record.turns_taken.block for record in records}) == 3
    assert sorted(read_strategies(event_log, "memory")) == ["checkpoint", "fp32"]
    pids = {words[2] for words in read_events(event_log, "start")}
    assert len(pids) == 6
    for case in CASES[:2]:
        of_case = [record for record in records if record.case == case.id]
        assert [bool(record.peaks) for record in of_case] == [True, False, False]
        assert [record.first_step_s for record in of_case] == [0.5, None, None], (
            "later blocks find everything compiled"
        )


def test_each_of_the_first_blocks_compiles_anew_where_the_option_says_so(
    fake_worker: Environment, results: Path
) -> None:
    """A verdict on the first step needs three that compile."""
    with run(results, Options(rounds=5, cold_blocks=3)) as opened:
        measure([group(fake_worker, CASES[:1])], opened, blocks=5)
    first_steps = [record.first_step_s for record in read_in_order(results)]
    assert first_steps == [0.5, 0.5, 0.5, None, None]


def test_compiled_variants_are_built_and_checked_on_every_core_from_the_second_block_on(
    fake_worker: Environment, results: Path, event_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first block each is alone until it is ready, and its turns are always on one core."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 7})
    with run(results) as opened:
        measure([group(fake_worker)], opened, blocks=2)
    built = read_cores(event_log, "start")
    assert built[:4] == ["7"] * 4
    # four variants on three cores, the largest first: 7, 3, 0, and 7 again
    assert Counter(built[4:]) == {"7": 2, "3": 1, "0": 1}
    assert Counter(read_cores(event_log, "finish")) == {"7": 4, "3": 2, "0": 2}
    assert {record.provenance.core for record in store.read_all(results)} == {7}


def test_variants_are_built_together_where_first_steps_do_not_matter(
    fake_worker: Environment, results: Path, event_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 7})
    with run(results, Options(rounds=5, first_alone=False)) as opened:
        measure([group(fake_worker)], opened, blocks=1)
    assert Counter(read_cores(event_log, "start")) == {"7": 2, "3": 1, "0": 1}


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_same_case_may_be_two_variants(
    at_once: int,
    fake_worker: Environment,
    results: Path,
    event_log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has its own peaks, also where the first one's record is there before the second's."""
    monkeypatch.setattr(blocks, "count_memory_processes", lambda timed, run: at_once)
    variant = Variant(CASE, fake_worker)
    with run(results, Options(rounds=3)) as opened:
        for _ in range(2):  # the second time there is nothing to do
            measure_group(Group("a/a", (variant, variant)), opened)
    records = list(store.read_all(results))
    assert sorted(record.turns_taken.arm for record in records) == [0, 1]
    assert all(record.peaks for record in records)
    assert len(read_strategies(event_log, "turn")) == 6
    assert len(read_strategies(event_log, "memory")) == 2


def test_group_has_its_frameworks_baseline_and_pytorchs(fake_worker: Environment) -> None:
    environments = {"torch": fake_worker, "jax": replace(fake_worker, framework="jax")}
    checkpoint = replace(CASE, strategy="checkpoint")
    of_jax, of_torch = make_groups([replace(checkpoint, framework="jax"), checkpoint], environments)
    assert list_cases(of_torch.always) == [CASE]
    assert list_cases(of_torch.others) == [checkpoint]
    assert list_cases(of_jax.always) == [CASE, replace(CASE, framework="jax")]


def test_group_has_no_baseline_of_a_framework_that_is_not_measured(
    fake_worker: Environment,
) -> None:
    jax_case = replace(CASE, framework="jax", strategy="checkpoint")
    (only,) = make_groups([jax_case], {"jax": replace(fake_worker, framework="jax")})
    assert list_cases(only.always) == [replace(CASE, framework="jax")]


def list_cases(variants: tuple[Variant, ...]) -> list[Case]:
    return [variant.case for variant in variants]


def test_record_with_a_planted_difference_is_no_measurement_of_the_case(
    fake_worker: Environment, results: Path
) -> None:
    plain = Variant(CASE, fake_worker)
    planted = Variant(CASE, fake_worker, spin=0.05, extra=0.02)
    with run(results, Options(rounds=3)) as opened:
        measure_group(Group("planted", (plain, planted)), opened)
        (plain_record,) = opened.records(plain)
        (planted_record,) = opened.records(planted)
    assert planted_record.provenance.planted == {"spin": 0.05, "extra": 0.02}
    assert (plain_record.usable, planted_record.usable) == (True, False)


def test_without_times_groups_are_joined_with_baselines_first() -> None:
    """Nothing is compared: no process waits for those of another group."""
    base, change = Variant(CASES[0], TORCH), Variant(CASES[1], TORCH)
    other = Variant(replace(CASES[0], batch=CASES[0].batch * 2), TORCH)
    whole = blocks.join_groups([Group("a", (base,), (change,)), Group("b", (other,), (change,))])
    assert (whole.always, whole.others) == ((), (base, other, change))


BASE = replace(CASES[0], size="full", batch=8)  # a size without float64 values


@pytest.mark.parametrize(
    ("case", "waits"),
    [
        (replace(BASE, strategy="checkpoint"), True),
        (replace(BASE, batch=16), False),  # another case's reference
        (CASES[1], False),  # it has float64 values
    ],
)
def test_case_waits_for_its_reference_while_that_is_built(
    case: Case, waits: bool, tmp_path: Path
) -> None:
    building = [make_building_process(tmp_path)]
    assert blocks.waits_for_reference(case, building, building, run(tmp_path)) == waits


def test_case_does_not_wait_where_there_is_a_reference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(blocks, "find_reference", lambda *_: "a reference")
    building = [make_building_process(tmp_path)]
    change = replace(BASE, strategy="checkpoint")
    assert not blocks.waits_for_reference(change, building, building, run(tmp_path))


def make_building_process(scratch: Path) -> TimedProcess:
    """Return the process of the baseline before it is ready."""
    return TimedProcess(Variant(BASE, TORCH), DEFAULT_OPTIONS, scratch, print)
