"""Which rows answer: this machine's, and those of others where it has not measured."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from framebench.analysis import frames, rows
from framebench.analysis.answers import (
    rank_savings,
    select_comparable,
    select_one_row_per_case,
    select_with_price,
)
from framebench.analysis.figures import fronts
from framebench.analysis.frames import Row
from framebench.analysis.reports.answer import make_answer
from framebench.analysis.searches import Searches
from framebench.budget.advise.advice import advise
from framebench.publish.sentences.in_words import describe_training
from framebench.suite.case import Case
from tests.advice_records import MIB, QUESTION, make_record
from tests.search_records import make_search


def make_rows(machine: str, *cases: tuple[str, int, float], device: str = "cpu") -> list[Row]:
    """Return rows of PyTorch; a case is its strategy, its peak in bytes and its step in seconds."""
    origin = {"machine": machine, "hardware": {"cpu": "x", "device": device}}
    records = []
    for strategy, peak, step in cases:
        record = make_record("torch", strategy, peak=peak, step=step, origin=origin)
        if device != "cpu":
            record.peaks["allocator.in_use"] = record.peaks["device.process"] = peak
        records.append(record)
    return frames.make_rows(records)


def change_row(row: Row, **changes: object) -> Row:
    return Row(**(vars(row) | changes))


OTHER = make_rows("other", ("fp32", 400, 1.0), ("checkpoint", 200, 1.5), ("accumulate", 300, 1.2))
HERE = make_rows("here", ("fp32", 400, 9.0), ("checkpoint", 200, 13.5))
HERE_ALONE = make_rows("here", ("checkpoint", 200, 13.5))  # without a baseline
ELSEWHERE_ALONE = make_rows("other", ("accumulate", 300, 1.2))
ON_GPU = make_rows("here", ("fp32", 400, 0.1), device="a GPU")


@pytest.mark.parametrize(
    ("here", "other", "machines"),
    [
        (HERE, OTHER, {"fp32": "here", "checkpoint": "here", "accumulate": "other"}),
        ([], OTHER, {"fp32": "other", "checkpoint": "other", "accumulate": "other"}),
        (HERE_ALONE, OTHER, {"fp32": "other", "checkpoint": "other", "accumulate": "other"}),
        (HERE_ALONE, ELSEWHERE_ALONE, {"checkpoint": "here", "accumulate": "other"}),
        (ON_GPU, OTHER, {"fp32": "here"}),
    ],
    ids=["some", "none", "no baseline here", "no baseline anywhere", "another kind of device"],
)
def test_a_case_is_answered_by_this_machine_or_else_by_others(here, other, machines):
    assert {row.strategy: row.machine for row in select_one_row_per_case([here, other])} == machines


def test_a_failure_here_is_not_hidden_by_another_machine():
    failed = make_record(
        "torch", "checkpoint", machine="here", status="wrong", reason="loss is off"
    )

    selected = select_one_row_per_case([frames.make_rows([failed]), OTHER])

    statuses = {row.strategy: row.status for row in selected}
    assert statuses == {"fp32": "ok", "checkpoint": "wrong", "accumulate": "ok"}


def test_speeds_of_a_cpu_rank_nothing_for_a_gpu():
    on_gpu = make_rows(
        "here", ("fp32", MIB // 2, 0.1), ("checkpoint", MIB // 4, 0.1), device="a GPU"
    )
    untimed_on_gpu = [change_row(row, throughput=None) for row in on_gpu]
    timed_on_cpu = OTHER

    fitting = advise([untimed_on_gpu, timed_on_cpu], QUESTION).fitting

    assert {option.throughput for option in fitting} == {0}  # 0: no speed is known


def make_searched_table(*measured: str) -> pd.DataFrame:
    """Return a table of these strategies, of which fp32 and checkpoint were searched.

    The process of fp32 keeps 1 MiB next to its peak, that of checkpoint nothing.
    """
    searches = []
    for strategy, kept in (("fp32", MIB), ("checkpoint", 0)):
        case = Case("transformer", "torch", "train", strategy, 4, "tiny")
        searches.append(make_search(case=case, kept=kept, versions={"torch": "0"}))
    peaks = {"fp32": 2 * MIB, "checkpoint": MIB, "accumulate": MIB // 2}
    records = [make_record("torch", name, peak=peaks[name], size="cpu") for name in measured]
    return frames.make_frame(records, searches=Searches(searches))


def test_an_unsearched_strategy_that_may_need_less_is_noted():
    """With the MiB that fp32 keeps, accumulate would need more than checkpoint."""
    table = make_searched_table("fp32", "checkpoint", "accumulate")
    answer = make_answer(table)
    assert answer.texts["strategy"] == ["checkpoint"]
    assert any("`accumulate` may need less: no search" in note for note in answer.notes)
    (line,) = describe_training(table, "m").lines
    assert line.endswith("; `accumulate` may need less: no search has run it.")


def rank_strategies(table: pd.DataFrame) -> list[Any]:
    """Return the strategies that save memory of a table of one framework."""
    ((framework, ranked),) = rank_savings(select_comparable(rows.select_shown(table)))
    assert framework == "PyTorch"
    return ranked


def list_strategies(ranked: list[Any]) -> list[str]:
    return [row.strategy for row in ranked]


def test_an_unproven_strategy_saves_nothing():
    table = frames.make_frame_of_rows(OTHER)
    unproven = table.assign(usable=table["usable"] & (table["strategy"] != "checkpoint"))
    assert list_strategies(rank_strategies(unproven)) == ["accumulate"]


@pytest.mark.parametrize(
    ("ratios", "shown"),
    [
        ({"fp32": 1.0, "accumulate": 1.2}, ["checkpoint", "accumulate"]),
        ({"checkpoint": 1.5, "accumulate": 1.5}, ["checkpoint"]),
        ({}, ["checkpoint"]),
    ],
    ids=["the first that was timed has the price", "timed itself", "nothing was timed"],
)
def test_the_least_memory_is_of_all_strategies_timed_or_not(ratios, shown):
    timed = [change_row(row, time_ratio=ratios.get(row.strategy)) for row in OTHER]
    ranked = rank_strategies(frames.make_frame_of_rows(timed))
    assert list_strategies(ranked) == ["checkpoint", "accumulate"]
    assert list_strategies(select_with_price(ranked)) == shown


def test_strategies_that_need_as_little_are_all_named():
    """In the sentences of README, in the answer, and in the headline of a figure."""
    equal = ("fp32", 4000, 1.0), ("checkpoint", 2000, 1.5), ("accumulate", 2001, 1.2)
    table = frames.make_frame_of_rows(make_rows("m", *equal, ("keep_grads", 2100, 1.0)))
    table = table.assign(size="cpu")
    leasts = ["checkpoint", "accumulate"]
    assert make_answer(table).texts["strategy"] == leasts
    (line,) = describe_training(table, "m").lines
    headline = fronts.describe_least(table)
    for text in (line, headline):
        assert all(name in text for name in leasts)
        assert "keep_grads" not in text


@pytest.mark.parametrize(("device", "price"), [("cpu", "~1.50 on other"), ("a GPU", "not timed")])
def test_a_missing_time_comes_from_another_machine_of_the_same_kind(device, price):
    untimed = [change_row(row, time_ratio=None) for row in HERE]
    timed = [change_row(row, time_ratio=1.5, device=device) for row in OTHER]
    others = {"other": frames.make_frame_of_rows(timed)}
    answer = make_answer(frames.make_frame_of_rows(untimed), others)
    assert answer.texts["time"] == [price]


@pytest.mark.parametrize(
    ("sizes", "workloads"),
    [
        (["tiny"], {"transformer"}),
        (["tiny", "cpu"], {"transformer"}),
        (["full", "cpu"], {"transformer cpu", "transformer full"}),
    ],
)
def test_the_answer_prefers_sizes_above_tiny_and_names_several(sizes, workloads):
    of_sizes = []
    for size in sizes:
        for row in OTHER:
            of_sizes.append(change_row(row, size=size, case=row.case.replace("tiny", size)))
    table = make_answer(frames.make_frame_of_rows(of_sizes))
    assert set(table.texts["workload"]) == workloads
    assert set(table.texts["strategy"]) == {"checkpoint"}
