"""Two cases, or two versions of a framework, as variants of one block."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framebench.compare import measure as compare
from framebench.engine.blocks import SILENT, Listener
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions import measure as versions
from tests.processes import fake_environment, framebench

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
OTHER = replace(CASE, strategy="checkpoint")
OPTIONS = Options(rounds=3, peaks_each_block=True)


@pytest.fixture
def fake_worker(tmp_path: Path) -> Environment:
    return fake_environment("engine/failing_worker.py", tmp_path)


def test_a_case_without_numbers_ends_the_comparison(
    fake_worker: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "checkpoint: refusal")
    with pytest.raises(
        compare.NotMeasured, match=r"checkpoint/b4/tiny gave no numbers: oom: .*memory ran out"
    ):
        compare.measure((CASE, OTHER), 2, "s", {"torch": fake_worker}, OPTIONS, results)
    with pytest.raises(compare.NotMeasured, match="unsupported: no slow path"):
        compare.measure(
            (CASE, replace(CASE, strategy="rewrite")),
            2,
            "t",
            {"torch": fake_worker},
            OPTIONS,
            results,
        )


class Stopping(Listener):
    """Ctrl-C when so many records are written."""

    def __init__(self, records: int) -> None:
        self.left = records

    def done(self, record: Record) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("other", [CASE, OTHER], ids=["itself", "another"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_comparison_goes_on_with_the_blocks_it_has(
    other: Case, after: int, fake_worker: Environment, results: Path
) -> None:
    """As if nothing had happened in between."""
    ready = {"torch": fake_worker}
    with pytest.raises(KeyboardInterrupt):
        compare.measure((CASE, other), 2, "s", ready, OPTIONS, results, Stopping(after))
    kept = list(store.read_all(results))
    assert len(kept) == after
    found = compare.measure((CASE, other), 2, "s", ready, OPTIONS, results, SILENT)
    records = list(store.read_all(results))
    assert len(records) == 4, "each once"
    assert all(record in records for record in kept)
    for base, change in found:
        assert base.turns_taken.block == change.turns_taken.block
        assert (base.turns_taken.arm, change.turns_taken.arm) == (0, 1)
        assert base.peaks
        assert change.peaks


def test_differences_in_what_is_computed_are_said() -> None:
    assert (
        compare.list_differences(CASE, Case("transformer", "jax", "train", "checkpoint", 4, "tiny"))
        == []
    )
    assert compare.list_differences(
        CASE, Case("transformer", "torch", "train", "fp32", 8, "cpu")
    ) == ["batch: 4 and 8", "size: tiny and cpu"]


def test_versions_are_variants_of_one_block_and_an_interrupted_run_goes_on(
    fake_worker: Environment, results: Path
) -> None:
    ready = {v: replace(fake_worker, version=v) for v in ("0.1", "0.2", "0.3")}
    with pytest.raises(KeyboardInterrupt):
        versions.measure([CASE, OTHER], ready, 2, "s", OPTIONS, results, Stopping(3))
    kept = list(store.read_all(results))
    statuses = versions.measure([CASE, OTHER], ready, 2, "s", OPTIONS, results)
    assert statuses == ["ok"] * 12
    found = list(store.read_all(results))
    assert len(found) == 12, "nothing lost, nothing measured twice"
    assert all(r in found for r in kept)
    by_block: dict[str, set[int]] = {}
    for r in found:
        assert r.turns
        by_block.setdefault(r.turns.block, set()).add(r.turns.arm)
    assert list(by_block.values()) == [{0, 1, 2}] * 4


def test_compare_as_a_user_meets_it(fake_worker: Environment, results: Path) -> None:
    other = "transformer/torch/eval/no_grad/b4/tiny"
    options = ["--blocks", "2", "--rounds", "3", "--env", str(fake_worker.python)]
    done = framebench("compare", CASE.id, other, *options, "--results", str(results), "--json")
    assert done.returncode == 0, done.stderr
    assert "scenario: train and eval" in done.stderr
    found = json.loads(done.stdout)
    assert found["cautions"] == ["fewer than 3 blocks have no interval"]
    assert {v["quantity"] for v in found["verdicts"]} >= {"step time", "peak memory"}
    assert {r.provenance.session for r in store.read_all(results)} == {found["session"]}
    assert not list(results.glob(".session*"))
