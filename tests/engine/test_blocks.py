"""Blocks: who takes turns in which order, and what is left when one of them dies, hangs, or the
whole run is interrupted.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import blocks, runner
from framebench.engine.blocks import measure, measure_group
from framebench.engine.environments import Environment, describe
from framebench.engine.groups import Group, make_groups
from framebench.engine.runner import DEFAULT_OPTIONS, Options
from framebench.engine.timed_process import ReferenceMatmul, Variant
from framebench.records import store
from tests.engine.fake_blocks import CASE, CASES, STRATEGIES, by_strategy, group, run, written

TORCH = describe("torch")


def test_each_round_runs_every_variant_in_the_order_of_the_seed(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    found = by_strategy(results)
    assert {r.status for r in found.values()} == {"ok"}
    assert len({r.turns.block for r in found.values() if r.turns}) == 1
    turns = written(event_log, "turn")
    rounds = [turns[i : i + 4] for i in range(0, len(turns), 4)]
    assert [sorted(r) for r in rounds] == [sorted(STRATEGIES)] * 5
    assert len({tuple(r) for r in rounds}) > 1, "not always the same order"
    seed = next(r.turns.seed for r in found.values() if r.turns)
    places = [
        STRATEGIES.index(r.turns.arms[r.turns.arm].split("/")[3]) for r in found.values() if r.turns
    ]
    assert sorted(places) == [0, 1, 2, 3]
    order = random.Random(seed)
    variants = [
        case.split("/")[3] for case in next(r.turns.arms for r in found.values() if r.turns)
    ]
    assert rounds == [order.sample(variants, 4) for _ in range(5)], (
        "whoever has the seed has the order"
    )


def test_times_are_paired_with_their_round_and_the_reference_matmul(
    fake_worker: Environment, results: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    for r in store.read_all(results):
        assert r.turns
        assert r.turns.round == [0, 1, 2, 3, 4]
        assert (
            len(r.step_s)
            == len(r.instructions)
            == len(r.turns.at_s)
            == len(r.turns.reference_s)
            == 5
        )
        assert r.turns.at_s == sorted(r.turns.at_s)
        assert r.turns.steps == 5, "as many as make 50 ms"
        assert all(0 < s < 60 for s in r.turns.reference_s)
        assert r.turns.reference_flop > 1e9


def test_reference_matmul_without_an_answer_has_no_time_in_that_round() -> None:
    with ReferenceMatmul(DEFAULT_OPTIONS) as matmul:
        matmul.turn(0)
        receive = matmul.worker.receive
        matmul.worker.receive = lambda *_: {"error": {}}  # type: ignore[method-assign]
        matmul.turn(1)
        matmul.worker.receive = receive  # type: ignore[method-assign]
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
    with run(results, Options(rounds=5, time_limit_s=3 if "hang" in failure else 60)) as opened:
        measure([group(fake_worker)], opened)
    found = by_strategy(results)
    bad = found.pop("checkpoint")
    assert bad.status == status
    assert reason is None or reason in (bad.reason or "")
    assert bad.turns
    if "memory" not in failure:
        assert (bad.step_s, bad.turns.round, bad.peaks) == ([], [], {})
    assert {r.status for r in found.values()} == {"ok"}
    assert all(len(r.step_s) == 5 and r.peaks for r in found.values())


def test_timeout_names_missing_bfloat16_units(
    fake_worker: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framebench.engine.runner.provenance.list_bfloat16_instructions", set)
    monkeypatch.setenv("FAKE_FAILURE", "amp_bf16: slow, checkpoint: slow")
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    found = by_strategy(results)
    assert "no bfloat16 units here" in (found["amp_bf16"].reason or "")
    assert "bfloat16" not in (found["checkpoint"].reason or "")
    assert found["fp32"].status == "ok"


def test_first_profile_shortens_the_limit_of_slow_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    bf16, fp32 = replace(CASE, strategy="amp_bf16"), CASE
    first, quick = Options(profile="first", time_limit_s=300), Options(profile="quick")
    monkeypatch.setattr("framebench.engine.runner.provenance.list_bfloat16_instructions", set)
    assert runner.limit_time(bf16, first).time_limit_s == 20
    assert (runner.limit_time(fp32, first), runner.limit_time(bf16, quick)) == (first, quick)
    monkeypatch.setattr(
        "framebench.engine.runner.provenance.list_bfloat16_instructions", lambda: {"avx512_bf16"}
    )
    assert runner.limit_time(bf16, first) == first


def test_memory_is_not_read_where_the_option_is_off(
    fake_worker: Environment, results: Path
) -> None:
    with run(results, Options(memory=False)) as opened:
        measure([group(fake_worker)], opened)
    assert {(r.status, bool(r.step_s), bool(r.peaks)) for r in by_strategy(results).values()} == {
        ("ok", True, False)
    }


def test_without_rounds_each_case_is_verified_and_its_memory_read_once(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    options = Options(rounds=0)
    more = replace(CASES[0], strategy="accumulate_8")
    with run(results, options) as opened:
        measure([group(fake_worker), group(fake_worker, [more])], opened)
    found = by_strategy(results)
    assert set(found) == {*STRATEGIES, "accumulate_8"}, (
        "the baseline of the second group is there already"
    )
    for r in found.values():
        assert r.status == "ok"
        assert r.peaks
        assert r.verification
        assert (r.step_s, r.first_step_s) == ([], None)
    assert not written(event_log, "turn")
    assert len(written(event_log, "memory")) == 5
    with run(results, options) as opened:
        measure([group(fake_worker), group(fake_worker, [more])], opened, blocks=2)
    assert Counter(r.parsed.strategy for r in store.read_all(results)) == dict.fromkeys(
        [*STRATEGIES, "accumulate_8"], 2
    )


def test_blocks_use_fresh_processes_and_read_memory_once(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    with run(results) as opened:
        measure([group(fake_worker, CASES[:2])], opened, blocks=3)
    found = list(store.read_all(results))
    assert Counter(r.case for r in found) == dict.fromkeys((c.id for c in CASES[:2]), 3)
    assert len({r.turns.block for r in found if r.turns}) == 3
    assert sorted(written(event_log, "memory")) == ["checkpoint", "fp32"]
    pids = [
        line.split()[2] for line in event_log.read_text().splitlines() if line.startswith("start")
    ]
    assert len(set(pids)) == 6
    for case in CASES[:2]:
        records = sorted(
            (r for r in found if r.case == case.id), key=lambda r: r.provenance.measured_at
        )
        assert [bool(r.peaks) for r in records] == [True, False, False]
        assert [r.first_step_s for r in records] == [0.5, None, None], (
            "what is compiled is found by the later ones"
        )


def test_in_the_first_blocks_everything_is_compiled_anew_where_that_is_asked_for(
    fake_worker: Environment, results: Path
) -> None:
    """A verdict on the first step needs three that compile."""
    with run(results, Options(rounds=5, cold_blocks=3)) as opened:
        measure([group(fake_worker, CASES[:1])], opened, blocks=5)
    records = sorted(store.read_all(results), key=lambda r: r.provenance.measured_at)
    assert [r.first_step_s for r in records] == [0.5, 0.5, 0.5, None, None]


def test_compiled_variants_are_built_and_checked_on_every_core(
    fake_worker: Environment, results: Path, event_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first block each is alone until it is ready, and its turns are always on one core."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 7})
    with run(results) as opened:
        measure([group(fake_worker)], opened, blocks=2)
    lines = event_log.read_text().splitlines()
    built, checked = (
        [line.split()[3] for line in lines if line.startswith(what)] for what in ("start", "finish")
    )
    assert built[:4] == ["7"] * 4
    assert Counter(built[4:]) == {"7": 2, "3": 1, "0": 1}
    assert Counter(checked) == {"7": 4, "3": 2, "0": 2}
    assert {r.provenance.core for r in store.read_all(results)} == {7}


def test_variants_are_built_together_where_first_steps_do_not_matter(
    fake_worker: Environment, results: Path, event_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 7})
    with run(results, Options(rounds=5, first_alone=False)) as opened:
        measure([group(fake_worker)], opened, blocks=1)
    built = [
        line.split()[3] for line in event_log.read_text().splitlines() if line.startswith("start")
    ]
    assert Counter(built) == {"7": 2, "3": 1, "0": 1}


def test_the_same_case_may_be_two_variants(
    fake_worker: Environment, results: Path, event_log: Path
) -> None:
    variant = Variant(CASE, fake_worker)
    with run(results, Options(rounds=3)) as opened:
        measure_group(Group("a/a", (variant, variant)), opened)
        measure_group(Group("a/a", (variant, variant)), opened)
    found = list(store.read_all(results))
    assert sorted(r.turns.arm for r in found if r.turns) == [0, 1]
    assert all(r.peaks for r in found), "each by a process of its own"
    assert len(written(event_log, "turn")) == 6


def test_groups_have_their_baselines(fake_worker: Environment) -> None:
    jax = replace(fake_worker, framework="jax")
    asked = [replace(CASE, framework=f, strategy="checkpoint") for f in ("jax", "torch")]
    torch, other = sorted(
        make_groups(asked, {"torch": fake_worker, "jax": jax}), key=lambda g: "jax" in g.name
    )
    assert [a.case.id for a in torch.always] == [CASE.id]
    assert [a.case.strategy for a in torch.others] == ["checkpoint"]
    assert [a.case.framework for a in other.always] == ["torch", "jax"], (
        "PyTorch's, by which frameworks are compared"
    )
    (alone,) = make_groups(asked[:1], {"jax": jax})
    assert [a.case.framework for a in alone.always] == ["jax"], "not where PyTorch is not measured"


def test_what_is_planted_is_said_and_is_no_measurement_of_the_case(
    fake_worker: Environment, results: Path
) -> None:
    with run(results, Options(rounds=3)) as opened:
        measure_group(
            Group(
                "planted",
                (Variant(CASE, fake_worker), Variant(CASE, fake_worker, spin=0.05, extra=0.02)),
            ),
            opened,
        )
        assert len(opened.records(Variant(CASE, fake_worker))) == 1
    plain, planted = sorted(store.read_all(results), key=lambda r: len(r.provenance.planted))
    assert planted.provenance.planted == {"spin": 0.05, "extra": 0.02}
    assert (plain.usable, planted.usable) == (True, False)


def test_without_times_groups_are_joined_with_baselines_first() -> None:
    """Nothing is compared: no process waits for those of another group."""
    base, change = Variant(CASES[0], TORCH), Variant(CASES[1], TORCH)
    other = Variant(replace(CASES[0], batch=CASES[0].batch * 2), TORCH)
    whole = blocks.join_groups([Group("a", (base,), (change,)), Group("b", (other,), (change,))])
    assert (whole.always, whole.others) == ((), (base, other, change))


def test_case_waits_for_its_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there are no float64 values: only while that one is being built, and not for another
    size's.
    """
    base = replace(CASES[0], size="full", batch=8)
    change, larger = replace(base, strategy="checkpoint"), replace(base, batch=16)
    opened = run(tmp_path)
    building: Any = [SimpleNamespace(variant=Variant(base, TORCH), verification=None)]
    assert blocks.waits_for_reference(change, building, building, opened)
    assert not blocks.waits_for_reference(larger, building, building, opened)
    assert not blocks.waits_for_reference(CASES[1], building, building, opened), (
        "it has float64 values"
    )
    monkeypatch.setattr(blocks, "find_reference", lambda *_: "found")
    assert not blocks.waits_for_reference(change, building, building, opened)
