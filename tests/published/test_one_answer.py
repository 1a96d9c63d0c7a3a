"""Every place that says what a job needs says the same: nine questions, asked everywhere.

A place is a command, README, the site's form, or the DataFrame.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import pytest

import framebench
from framebench.analysis.frames import Row
from framebench.analysis.needs import format_guessed_needs
from framebench.analysis.peaks import read_evidence
from framebench.analysis.rendering import Table
from framebench.analysis.reports.answer import make_answer
from framebench.analysis.results import Results
from framebench.analysis.tables import make_framework_tables
from framebench.budget.advise.advice import BudgetAdvice, Question, advise
from framebench.budget.predict.command import predict_from_rows
from framebench.models.spec import load_workload
from framebench.publish.sentences.in_words import describe_training
from framebench.publish.site import front
from framebench.publish.site.machine import list_machines
from framebench.publish.site.titles import get_title
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from tests.processes import ROOT

MIB = 2**20
MACHINE = "zen4-2core"  # that README shows
RESULTS = Results.committed(ROOT / "results")
BATCHES = {"transformer": 4, "resnet50": 8, "unet3d": 4}
JOBS = list(product(BATCHES, FRAMEWORKS))
UNLIMITED = 2**40  # bytes


@cache
def load_table() -> Any:
    return framebench.load(ROOT / "results", machine=MACHINE)


@cache
def ask_advise(workload: str, framework: str) -> BudgetAdvice:
    """Return what `advise` says of training at the usual batch, the leanest strategy first."""
    batch = BATCHES[workload]
    question = Question(workload, "train", UNLIMITED, (framework,), batch=batch, by="memory")
    return advise([read_training(workload)], question, RESULTS.searches)


@cache
def list_form_groups() -> dict[tuple[str, ...], Any]:
    """Return the groups of rows in the site's form, by their question."""
    (machine,) = [m for m in list_machines(RESULTS.records, RESULTS) if m.name == MACHINE]
    groups = {}
    for group in front.list_groups(machine):
        groups[tuple(group[name] for name in front.QUESTION_COLUMNS)] = group
    return groups


def find_form_row(workload: str, framework: str, mark: str) -> Any:
    """Return the form's row of training at the usual batch that has a mark: `base` or `least`."""
    question = (get_title(workload), get_title("train"), "cpu", str(BATCHES[workload]))
    rows = list_form_groups()[question]["rows"]
    (row,) = [row for row in rows if row["framework"] == get_title(framework) and row[mark]]
    return row


@cache
def load_answer() -> Any:
    """Return the rows that the command `answer` prints."""
    return make_answer(load_table()).data


@cache
def list_framework_tables() -> list[Table]:
    return list(make_framework_tables(load_table()))


@cache
def list_sentences() -> list[str]:
    """Return README's sentences about training."""
    return describe_training(load_table(), MACHINE).lines


@cache
def read_training(workload: str) -> list[Row]:
    """Return what was measured of training."""
    rows, _ = read_evidence(ROOT / "results", MACHINE, workload, "train")
    return rows


def find_answer(workload: str, framework: str) -> Any:
    """Return what the command `answer` says first of a job."""
    answered = load_answer()
    is_job = (answered["workload"] == workload) & (answered["framework"] == framework)
    return answered[is_job].iloc[0]


def find_side_by_side(case: Case) -> Any:
    """Return the number by which `report` sets frameworks next to each other."""
    (table,) = [table for table in list_framework_tables() if ", train (" in table.title]
    rows = table.data.set_index(["workload", "size", "batch"])
    return rows.loc[(case.workload, case.size, case.batch), f"needs_bytes {case.framework}"]


def format_mib(needs: float) -> float:
    """Return bytes in MiB as tables print them."""
    return math.ceil(needs / MIB * 10) / 10


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_the_need_of_the_baseline_is_one_number_everywhere(workload, framework):
    case = Case(workload, framework, "train", "fp32", BATCHES[workload], "cpu")
    needs = load_table().set_index("case").loc[case.id, "needs_bytes"]

    candidates = ask_advise(workload, framework).candidates
    (baseline,) = [one for one in candidates if one.case.strategy == "fp32"]
    assert baseline.peak.needs == needs
    least_needs = load_table().set_index("case").loc[case.id, "least_needs_bytes"]
    assert baseline.peak.least_needs == least_needs

    predicted = predict_from_rows(case, read_training(workload), RESULTS)
    assert (predicted.needs_bytes, predicted.least_needs_bytes) == (needs, least_needs)

    assert find_answer(workload, framework)["base"] == format_guessed_needs(needs, least_needs)
    assert find_side_by_side(case) == needs
    assert find_form_row(workload, framework, "base")["needs"] == format_mib(needs)


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_the_strategy_that_needs_least_is_one_everywhere(workload, framework):
    leanest = ask_advise(workload, framework).fitting[0]
    strategy = leanest.case.strategy
    needs = leanest.peak.needs
    amount = format_guessed_needs(needs, leanest.peak.least_needs)

    answered = find_answer(workload, framework)
    assert (answered["strategy"], answered["least"]) == (strategy, amount)

    in_form = find_form_row(workload, framework, "least")
    assert (in_form["strategy"], in_form["needs"]) == (strategy, format_mib(needs))
    assert ("atLeast" in in_form) == amount.startswith("up to")

    title = load_workload(workload).title
    (line,) = [line for line in list_sentences() if line.startswith(f"**{title}**")]
    sentence = f"{get_title(framework)} needs {amount} MiB with `{strategy}`"
    assert sentence in line


@pytest.mark.parametrize("workload", BATCHES)
def test_advise_and_the_frame_give_a_ratio_one_interval(workload):
    """How much blocks differ is learnt from all of a machine's, whatever cases are asked about."""
    table = load_table().set_index("case")
    names = ["time_ratio", "time_ratio_low", "time_ratio_high"]
    compared = 0
    for row in read_training(workload):
        if row.time_ratio_low is not None:
            compared += 1
            in_frame = list(table.loc[row.case, names])
            assert [row.time_ratio, row.time_ratio_low, row.time_ratio_high] == in_frame
    assert compared
