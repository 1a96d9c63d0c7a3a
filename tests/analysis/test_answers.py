"""Which rows answer: this machine's, and those of others where it has not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from framebench.analysis import frames, rows
from framebench.analysis.answers import (
    rank_savings,
    select_comparable,
    select_rows,
    select_with_price,
)
from framebench.analysis.frames import Row
from framebench.analysis.reports.answer import make_answer
from framebench.budget.advise.advice import advise
from framebench.suite.case import Case
from tests.advice_records import MIB, PASSED, QUESTION, made
from tests.fake_records import provenance, record

CPU = {"cpu": "x", "device": "cpu"}
GPU = {"cpu": "x", "device": "a GPU"}


def make_rows(
    machine: str, *cases: tuple[str, int, float], hardware: dict[str, str] = CPU
) -> list[Row]:
    """Return rows of PyTorch; a case is its strategy, its peak in bytes and its step in seconds."""
    origin = provenance(
        machine=machine, versions={"torch": "1"}, calibration=PASSED, hardware=hardware
    )
    records = []
    for strategy, peak, step in cases:
        records.append(made("torch", strategy, 4, peak, step, machine, provenance=origin))
    return frames.make_rows(records)


def get_machines(selected: list[Row]) -> dict[str, str]:
    """Return the machine that answers for each strategy."""
    return {row.strategy: row.machine for row in selected}


OTHER = make_rows("other", ("fp32", 400, 1.0), ("checkpoint", 200, 1.5), ("accumulate", 300, 1.2))


def test_two_cases_of_this_machine_hide_no_other_case() -> None:
    here = make_rows("here", ("fp32", 400, 9.0), ("checkpoint", 200, 13.5))

    machines = get_machines(select_rows([here, OTHER]))

    assert machines == {"fp32": "here", "checkpoint": "here", "accumulate": "other"}


def test_without_rows_of_this_machine_the_others_answer() -> None:
    machines = get_machines(select_rows([[], OTHER]))
    assert machines == {"fp32": "other", "checkpoint": "other", "accumulate": "other"}


def test_a_case_without_a_baseline_here_is_compared_by_the_others() -> None:
    here = make_rows("here", ("checkpoint", 200, 13.5))
    machines = get_machines(select_rows([here, OTHER]))
    assert machines == {"fp32": "other", "checkpoint": "other", "accumulate": "other"}


def test_a_case_without_a_baseline_anywhere_is_of_this_machine() -> None:
    here = make_rows("here", ("checkpoint", 200, 13.5))
    other = make_rows("other", ("accumulate", 300, 1.2))
    machines = get_machines(select_rows([here, other]))
    assert machines == {"checkpoint": "here", "accumulate": "other"}


def test_a_failure_here_is_not_hidden_by_another_machine() -> None:
    case = Case("transformer", "torch", "train", "checkpoint", 4, "tiny")
    origin = provenance(machine="here")
    failed = record(case, status="wrong", reason="loss is off", provenance=origin)

    selected = select_rows([frames.make_rows([failed]), OTHER])

    statuses = {row.strategy: row.status for row in selected}
    assert statuses == {"fp32": "ok", "checkpoint": "wrong", "accumulate": "ok"}


def test_a_question_measured_on_a_gpu_takes_no_rows_of_a_cpu() -> None:
    on_gpu = make_rows("here", ("fp32", 400, 0.1), hardware=GPU)
    assert get_machines(select_rows([on_gpu, OTHER])) == {"fp32": "here"}


def test_another_question_takes_rows_of_a_cpu() -> None:
    on_gpu = make_rows("here", ("fp32", 400, 0.1), hardware=GPU)
    evaluation = made("torch", "fp32", 4, 400, 1.0, "other").model_copy(
        update={"case": "transformer/torch/eval/no_grad/b4/tiny"}
    )
    selected = select_rows([on_gpu, frames.make_rows([evaluation])])
    assert get_machines(selected) == {"fp32": "here", "no_grad": "other"}


def test_advice_is_ranked_by_the_speeds_of_the_machine_that_timed_most() -> None:
    here = make_rows("here", ("fp32", 400, 9.0), ("checkpoint", 200, 0.001))

    alone = advise([OTHER], QUESTION)
    both = advise([here, OTHER], QUESTION)

    assert both.machine == "other"
    assert [option.case for option in both.fitting] == [option.case for option in alone.fitting]
    for option, expected in zip(both.fitting, alone.fitting):
        assert option.peak.value == expected.peak.value
        assert option.throughput == expected.throughput
    machines = [option.evidence.machine for option in both.fitting]
    assert machines == ["here", "other", "here"]


def test_advice_is_ranked_by_this_machine_if_it_timed_as_much() -> None:
    cases = [(strategy, 100, 0.001) for strategy in ("fp32", "checkpoint", "accumulate")]
    assert advise([make_rows("here", *cases), OTHER], QUESTION).machine == "here"


def test_speeds_of_a_cpu_rank_nothing_for_a_gpu() -> None:
    on_gpu = make_rows("here", ("fp32", MIB // 2, 0.1), ("checkpoint", MIB // 4, 0.1), hardware=GPU)
    untimed = [replace(row, throughput=None) for row in on_gpu]

    fitting = advise([untimed, OTHER], QUESTION).fitting

    assert {option.throughput for option in fitting} == {0}


def set_time_ratios(ratios: dict[str, float]) -> pd.DataFrame:
    """Return the table of OTHER with these ratios of times by strategy; the others have none."""
    timed = [replace(row, time_ratio=ratios.get(row.strategy)) for row in OTHER]
    return frames.make_frame_of_rows(timed)


def rank_strategies(table: pd.DataFrame) -> tuple[str, list[Any]]:
    """Return the only framework of a table, and its strategies that save memory."""
    ((framework, ranked),) = rank_savings(select_comparable(rows.select_shown(table)))
    return framework, ranked


def list_strategies(ranked: list[Any]) -> list[str]:
    return [row.strategy for row in ranked]


def test_the_least_memory_is_of_all_strategies_timed_or_not() -> None:
    framework, ranked = rank_strategies(set_time_ratios({"fp32": 1.0, "accumulate": 1.2}))
    assert framework == "PyTorch"
    assert list_strategies(ranked) == ["checkpoint", "accumulate"]


def test_an_unproven_strategy_saves_nothing() -> None:
    table = frames.make_frame_of_rows(OTHER)
    unproven = table.assign(usable=table["usable"] & (table["strategy"] != "checkpoint"))
    _, ranked = rank_strategies(unproven)
    assert list_strategies(ranked) == ["accumulate"]


def make_size(size: str) -> list[Row]:
    """Return the rows of OTHER, as if they had been measured at another size."""
    return [replace(row, size=size, case=row.case.replace("tiny", size)) for row in OTHER]


def list_answered_workloads(answered: list[Row]) -> list[str]:
    table = make_answer(frames.make_frame_of_rows(answered))
    return [row[0] for row in table.rows]


def test_the_answer_is_of_tiny_only_where_there_is_no_other_size() -> None:
    assert list_answered_workloads(make_size("tiny")) == ["transformer"]
    assert list_answered_workloads([*make_size("tiny"), *make_size("cpu")]) == ["transformer"]


def test_the_answer_names_the_size_where_there_are_several() -> None:
    workloads = list_answered_workloads([*make_size("full"), *make_size("cpu")])
    assert set(workloads) == {"transformer cpu", "transformer full"}


def test_the_first_timed_strategy_gives_the_price_where_the_least_has_none() -> None:
    _, ranked = rank_strategies(set_time_ratios({"fp32": 1.0, "accumulate": 1.2}))
    assert list_strategies(select_with_price(ranked)) == ["checkpoint", "accumulate"]


def test_a_timed_strategy_needs_no_other_price() -> None:
    _, ranked = rank_strategies(set_time_ratios({"checkpoint": 1.5, "accumulate": 1.5}))
    assert list_strategies(select_with_price(ranked)) == ["checkpoint"]


def test_without_a_timed_strategy_there_is_no_price() -> None:
    _, ranked = rank_strategies(set_time_ratios({}))
    assert list_strategies(select_with_price(ranked)) == ["checkpoint"]
    assert select_with_price([]) == []
