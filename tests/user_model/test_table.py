"""The sentences below the table of `framebench try`, and what a budget must have."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from framebench.analysis import frames
from framebench.analysis.needs import MARGIN
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.result import Mathematics, StrategyEffect, Verification
from framebench.user_model.table import (
    add_needs,
    collect_remarks,
    describe_fitting,
    describe_least,
    describe_verdicts,
    find_contradiction,
    find_needs,
    make_table,
)
from tests.fake_records import record

MIB = 2**20


def make_checked(strategy: str, reason: str = "", why_unproven: str = "") -> Record:
    """Return a record of a strategy that was run in float64, or was not for a reason."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    outcome = Mathematics(case=case.id, computed=not reason, passed=True, reason=reason or None)
    effect = StrategyEffect(proven=not why_unproven, evidence={}, reason=why_unproven or None)
    verification = Verification(passed=True, mathematics=outcome)
    return record(case, verification=verification, effect=effect)


def test_unchecked_strategies_are_listed_by_their_reason():
    """The newest record of a strategy counts."""
    records = [
        make_checked("fp32", "no operator"),
        make_checked("fp32"),
        make_checked("checkpoint", "it casts by itself", "block_runs: expected 8, observed 4"),
        make_checked("accumulate", "it casts by itself"),
    ]
    assert list(describe_verdicts(records)) == [
        "3 of 3 strategies compute the same, up to rounding; 2 of them were seen at work",
        "1 of 3 strategies were checked in float64",
        "not checked in float64: checkpoint, accumulate: it casts by itself",
        "checkpoint: effect not proven: block_runs: expected 8, observed 4",
    ]


def make_needs(**needs: int) -> pd.DataFrame:
    """Return rows of strategies that need so many MiB; fp32 is the baseline."""
    table = pd.DataFrame({"strategy": needs.keys(), "needs_bytes": needs.values()})
    table["needs_bytes"] *= MIB
    times = {"time_ratio": math.nan, "time_ratio_low": math.nan, "time_ratio_high": math.nan}
    return table.assign(usable=True, baseline=table["strategy"] == "fp32", step_time_s=1.0, **times)


@pytest.mark.parametrize(
    ("needs", "answer"),
    [
        ({"checkpoint": 50, "foreach": 60}, "checkpoint needs least: 50.0 MiB, 50% of what"),
        (
            {"checkpoint": 50, "foreach": 50},
            "checkpoint and foreach need least, equally: 50.0 MiB, 50% of what",
        ),
        ({"checkpoint": 100, "foreach": 120}, "No strategy needs less than fp32."),
    ],
)
def test_strategies_that_need_as_little_are_all_named(needs, answer):
    (sentence,) = describe_least(make_needs(fp32=100, **needs))
    assert sentence.startswith(answer)


@pytest.mark.parametrize(
    ("low", "answer"),
    [
        (0.85, "foreach (50.0 MiB, 1,000.0 ms a step), with checkpoint as fast within"),
        (0.95, "foreach (50.0 MiB, 1,000.0 ms a step)."),
    ],
)
def test_a_strategy_is_as_fast_if_the_intervals_overlap(low, answer):
    table = make_needs(fp32=100, foreach=50, checkpoint=50)
    table["time_ratio"] = [1.0, 0.89, 0.97]
    table["time_ratio_low"] = [math.nan, 0.88, low]
    table["time_ratio_high"] = [math.nan, 0.9, 0.98]
    assert f"the fastest of them is {answer}" in describe_fitting(table, 200 * MIB)


def test_only_a_peak_below_the_activations_is_a_contradiction():
    row = {"strategy": "fp32", "peak_bytes": 416 * MIB, "activation_bytes": 364 * MIB}
    assert find_contradiction(pd.DataFrame([row])) is None
    contradiction = find_contradiction(pd.DataFrame([row | {"peak_bytes": 330 * MIB}]))
    assert "364.0 MiB, and the peak was read as only 330.0 MiB" in contradiction


@pytest.mark.parametrize(
    ("columns", "needs"),
    [
        ({"cold_peak_bytes": 21 * MIB, "library_bytes": 0}, 21),
        ({"cold_peak_bytes": 21 * MIB, "library_bytes": 9 * MIB}, 29),
        ({"step_bytes": 40 * MIB, "step_instrument": "host.rss"}, 40),
        ({"step_bytes": 10 * MIB, "step_instrument": "host.rss"}, 20),
    ],
)
def test_needs_rest_on_the_largest_count_of_memory(columns, needs):
    row = {"peak_bytes": 20 * MIB, "cold_peak_bytes": None, "library_bytes": 0, **columns}
    assert find_needs(row) == pytest.approx(needs * MIB * MARGIN)
    assert find_needs(row | {"peak_bytes": None}) is None


@pytest.mark.parametrize(("process", "needs"), [(500, 500), (None, None)])
def test_a_need_on_a_gpu_is_that_of_the_whole_process(process, needs):
    row = {"peak_bytes": 20 * MIB, "cold_peak_bytes": None, "library_bytes": 0, "device": "a GPU"}
    row["shared_bytes"] = process and process * MIB
    assert find_needs(row) == (needs and pytest.approx(needs * MIB * MARGIN))


@pytest.mark.parametrize(
    ("rss", "amounts"),
    [(44, "needs: fp32 4.0 MiB"), (41, ""), (38, "")],
    ids=["more than planned", "hardly more", "less"],
)
def test_what_a_step_takes_beyond_the_plan_of_its_compiler_is_told(rss, amounts):
    case = Case("transformer", "jax", "train", "fp32", 4, "tiny")
    peaks = {"compiler.plan": 40 * MIB, "host.rss": rss * MIB}
    remarks = collect_remarks([])
    rows = add_needs(frames.make_frame([record(case, peaks=peaks)]), remarks)
    assert rows["peak_bytes"].item() == 40 * MIB
    notes = " ".join(make_table(rows, {}, remarks).notes)
    assert ("XLA's plan" in notes) == bool(amounts)
    assert amounts in notes


@pytest.mark.parametrize(("budget", "cell"), [(None, None), (30, "yes"), (19, "NO")])
def test_a_budget_adds_to_each_row_whether_it_fits(budget, cell):
    records = [record(peaks={"host.rss": 20 * MIB})]
    remarks = collect_remarks(records)
    rows = add_needs(frames.make_frame(records), remarks)
    table = make_table(rows, {}, remarks, budget and budget * MIB)
    cells = dict(zip(table.head, table.rows[0]))
    assert cells.get("fits") == cell


@pytest.mark.parametrize(
    ("peaks", "rises"),
    [
        ((10, 15, 20), True),
        ((10, 15, 14), False),
        ((10, 10.2, 10.4), False),
        ((10, 15), False),
    ],
    ids=["rising", "not rising at last", "within what peaks vary", "too few"],
)
def test_a_peak_that_rises_from_step_to_step_is_said(peaks, rises):
    samples = [{"host.rss": round(peak * MIB)} for peak in peaks]
    records = [record(peaks=samples[-1], peak_samples=samples)]
    remarks = collect_remarks(records)
    table = make_table(add_needs(frames.make_frame(records), remarks), {}, remarks)
    notes = [note for note in table.notes if "rises from step to step" in note]
    assert len(notes) == rises
    assert all("(10.0, 15.0, 20.0 MiB)" in note for note in notes)
