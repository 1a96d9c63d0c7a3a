"""Two cases as variants of one block."""

import json
from dataclasses import replace

import pytest

from framebench.compare import measure as compare
from framebench.engine.blocks import SILENT
from framebench.engine.runner import Options
from framebench.records import store
from framebench.suite.case import Case
from tests.callbacks import InterruptingListener
from tests.processes import framebench

CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
OTHER = replace(CASE, strategy="checkpoint")
OPTIONS = Options(rounds=3, peaks_each_block=True)


def test_a_case_without_numbers_ends_the_comparison(fake_worker, results, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", "checkpoint: refusal")
    environments = {"torch": fake_worker}
    unsupported = replace(CASE, strategy="rewrite")
    no_memory = r"checkpoint/b4/tiny gave no numbers: oom: .*memory ran out"
    with pytest.raises(compare.NotMeasured, match=no_memory):
        compare.measure((CASE, OTHER), 2, "s", environments, OPTIONS, results)
    with pytest.raises(compare.NotMeasured, match="unsupported: no slow path"):
        compare.measure((CASE, unsupported), 2, "t", environments, OPTIONS, results)


@pytest.mark.parametrize(("other", "after"), [(CASE, 1), (CASE, 3), (OTHER, 2)])
def test_a_resumed_comparison_measures_only_the_missing_records(other, after, fake_worker, results):
    """The listener interrupts after so many records; two blocks of two cases have four."""
    pair, environments = (CASE, other), {"torch": fake_worker}
    listener = InterruptingListener(after)
    with pytest.raises(KeyboardInterrupt):
        compare.measure(pair, 2, "s", environments, OPTIONS, results, listener)
    earlier = list(store.read_all(results))
    assert len(earlier) == after

    base_records, change_records = compare.measure(
        pair, 2, "s", environments, OPTIONS, results, SILENT
    )

    records = list(store.read_all(results))
    assert len(records) == 4, "each once"
    for record in earlier:
        assert record in records
    assert len(base_records) == 2, "one for each block"
    for base, change in zip(base_records, change_records, strict=True):
        assert base.turns_taken.block == change.turns_taken.block
        assert (base.turns_taken.arm, change.turns_taken.arm) == (0, 1)
        assert base.peaks
        assert change.peaks


def test_differences_in_the_work_of_two_cases_are_listed():
    same_work = replace(CASE, framework="jax", strategy="checkpoint")
    other_work = replace(CASE, batch=8, size="cpu")
    assert compare.list_differences(CASE, same_work) == []
    assert compare.list_differences(CASE, other_work) == ["batch: 4 and 8", "size: tiny and cpu"]


def test_compare_prints_verdicts_and_cautions_as_json(fake_worker, results):
    other = "transformer/torch/eval/no_grad/b4/tiny"
    options = ["--blocks", "2", "--rounds", "3", "--env", fake_worker.python]
    done = framebench("compare", CASE.id, other, *options, "--results", results, "--json", code=0)
    assert "scenario: train and eval" in done.stderr
    comparison = json.loads(done.stdout)
    assert comparison["cautions"] == ["fewer than 3 blocks have no interval"]
    quantities = {verdict["quantity"] for verdict in comparison["verdicts"]}
    assert quantities >= {"step time", "peak memory"}
    sessions = {record.provenance.session for record in store.read_all(results)}
    assert sessions == {comparison["session"]}
    assert not list(results.glob(".session*"))
