"""Two cases, or two versions of a framework, as variants of one block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from framebench.analysis.reports import verdicts
from framebench.compare import measure as compare
from framebench.engine.blocks import SILENT, Listener
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions import measure as versions
from tests.fake_records import select_sides
from tests.processes import COMMAND, fake_environment, framebench

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
OTHER = replace(CASE, strategy="checkpoint")
OPTIONS = Options(rounds=3, peaks_each_block=True)


@pytest.fixture
def fake_worker(tmp_path: Path) -> Environment:
    return fake_environment("engine/failing_worker.py", tmp_path)


@pytest.mark.parametrize("other", [CASE, OTHER], ids=["itself", "another"])
def test_both_are_in_every_block(other: Case, fake_worker: Environment, results: Path) -> None:
    found = compare.measure((CASE, other), 2, "s", {"torch": fake_worker}, OPTIONS, results)
    assert [(r.base.case, r.change.case) for r in found] == [(CASE.id, other.id)] * 2
    for r in found:
        assert r.base.turns
        assert r.change.turns
        assert (r.base.turns.arm, r.change.turns.arm) == (0, 1)
        assert r.base.turns.block == r.change.turns.block
        assert r.base.peaks
        assert r.change.peaks
    assert len(list(store.read_all(results))) == 4


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
@pytest.mark.parametrize(("after", "in_all"), [(1, 5), (2, 4), (3, 5)])
def test_a_comparison_goes_on_with_the_blocks_it_has(
    other: Case, after: int, in_all: int, fake_worker: Environment, results: Path
) -> None:
    """A block that has one of its records alone is measured again."""
    ready = {"torch": fake_worker}
    with pytest.raises(KeyboardInterrupt):
        compare.measure((CASE, other), 2, "s", ready, OPTIONS, results, Stopping(after))
    kept = list(store.read_all(results))
    assert len(kept) == after
    found = compare.measure((CASE, other), 2, "s", ready, OPTIONS, results, SILENT)
    records = list(store.read_all(results))
    assert len(records) == in_all
    assert all(record in records for record in kept)
    for base, change in found:
        assert base.turns_taken.block == change.turns_taken.block
        assert (base.turns_taken.arm, change.turns_taken.arm) == (0, 1)


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
    """Terminated in the middle, and taken up by the same command."""
    other = "transformer/torch/eval/no_grad/b4/tiny"
    arguments = [
        "compare",
        CASE.id,
        other,
        "--blocks",
        "2",
        "--rounds",
        "3",
        "--results",
        str(results),
    ]
    arguments += ["--env", str(fake_worker.python)]
    slowly = {**os.environ, "LINGER": "0.3"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=slowly,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(store.read_all(results)) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate()
    assert process.returncode == 130, told
    assert "goes on from there" in told
    first = list(store.read_all(results))
    again = framebench(*arguments, "--json")
    assert again.returncode == 0, again.stderr
    assert "scenario: train and eval" in again.stderr
    found = json.loads(again.stdout)
    assert found["cautions"] == ["fewer than 3 blocks have no interval"]
    assert {v["quantity"] for v in found["verdicts"]} >= {"step time", "peak memory"}
    kept = list(store.read_all(results))
    judged = verdicts.compare(*select_sides(kept, CASE.id, other))
    assert json.loads(json.dumps([v._asdict() for v in judged])) == found["verdicts"]
    assert len(kept) == 4
    assert all(record in kept for record in first)
    assert {r.provenance.session for r in kept} == {found["session"]}
    assert not list(results.glob(".session*"))
