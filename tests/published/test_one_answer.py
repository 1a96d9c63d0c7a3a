"""Every place that says what a job needs says the same: nine questions, asked everywhere.

A place is a command, README, the site's form, or the DataFrame.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import pytest

import framebench
from framebench.analysis.peaks import read_evidence
from framebench.analysis.reports.answer import make_answer
from framebench.analysis.results import Results
from framebench.analysis.tables import make_framework_tables
from framebench.budget.advise.advice import BudgetAdvice, Question, advise
from framebench.budget.predict.command import predict_from_rows
from framebench.models.spec import load_workload
from framebench.publish.readme.in_words import describe_training
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
JOBS = [(workload, framework) for workload in BATCHES for framework in FRAMEWORKS]
UNLIMITED = 2**40


@cache
def load_table() -> Any:
    return framebench.load(ROOT / "results", machine=MACHINE)


@cache
def ask_advise(workload: str, framework: str, budget: int) -> BudgetAdvice:
    rows, _ = read_evidence(ROOT / "results", MACHINE, workload, "train")
    batch = BATCHES[workload]
    question = Question(workload, "train", budget, (framework,), batch=batch, by="memory")
    return advise([rows], question, RESULTS.searches)


@cache
def list_form_groups() -> list[Any]:
    (machine,) = [m for m in list_machines(RESULTS.records, RESULTS) if m.name == MACHINE]
    return list(front.list_groups(machine))


def list_form_rows(workload: str, framework: str) -> list[Any]:
    """Return what the site's form knows of training at the usual batch."""
    question = [get_title(workload), get_title("train"), "cpu", str(BATCHES[workload])]
    (group,) = [group for group in list_form_groups() if get_question(group) == question]
    return [row for row in group["rows"] if row["framework"] == get_title(framework)]


def get_question(group: Any) -> list[str]:
    return [group[name] for name in front.QUESTION]


def find_answer(workload: str, framework: str) -> Any:
    """Return what the command `answer` says first of a job."""
    answered = make_answer(load_table()).data
    is_job = (answered["workload"] == workload) & (answered["framework"] == framework)
    return answered[is_job].iloc[0]


def find_side_by_side(case: Case) -> Any:
    """Return the number by which `report` sets frameworks next to each other."""
    (table,) = (t for t in make_framework_tables(load_table()) if ", train (" in t.title)
    rows = table.data.set_index(["workload", "size", "batch"])
    return rows.loc[(case.workload, case.size, case.batch), f"needs_bytes {case.framework}"]


def format_mib(needs: float) -> float:
    """Return bytes in MiB as tables print them."""
    return math.ceil(needs / MIB * 10) / 10


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_the_need_of_the_baseline_is_one_number_everywhere(workload: str, framework: str) -> None:
    case = Case(workload, framework, "train", "fp32", BATCHES[workload], "cpu")
    needs = load_table().set_index("case").loc[case.id, "needs_bytes"]

    candidates = ask_advise(workload, framework, UNLIMITED).candidates
    (advised,) = [
        candidate.peak.needs for candidate in candidates if candidate.case.strategy == "fp32"
    ]
    rows, _ = read_evidence(ROOT / "results", MACHINE, workload, "train")
    predicted = predict_from_rows(case, rows, RESULTS)
    (in_form,) = [row for row in list_form_rows(workload, framework) if row["base"]]

    assert advised == predicted.needs_bytes == needs == find_answer(workload, framework)["base"]
    assert in_form["needs"] == format_mib(needs)
    assert find_side_by_side(case) == needs


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_the_strategy_that_needs_least_is_one_everywhere(workload: str, framework: str) -> None:
    leanest = ask_advise(workload, framework, UNLIMITED).fitting[0]
    strategy = leanest.case.strategy
    needs = leanest.peak.needs

    answered = find_answer(workload, framework)
    assert (answered["strategy"], answered["least"]) == (strategy, needs)

    (in_form,) = [row for row in list_form_rows(workload, framework) if row["least"]]
    assert (in_form["strategy"], in_form["needs"]) == (strategy, format_mib(needs))

    title = load_workload(workload).title
    lines = describe_training(load_table(), MACHINE).lines
    (line,) = [line for line in lines if line.startswith(f"**{title}**")]
    sentence = f"{get_title(framework)} needs {math.ceil(needs / MIB):,} MiB with `{strategy}`"
    assert sentence in line


def select_trained_transformers() -> Any:
    """Return the rows of the small Transformer's training at the usual batch."""
    df = load_table()
    is_offered = df["usable"] & df["same_mathematics"] & ~df["only_for_claims"]
    is_job = (df["workload"] == "transformer") & (df["scenario"] == "train")
    return df[is_offered & is_job & (df["batch"] == 4) & (df["size"] == "cpu")]


# the leanest strategy lies between the two budgets
@pytest.mark.parametrize(("budget", "something_fits"), [(150 * MIB, False), (152 * MIB, True)])
def test_a_small_transformer_fits_a_budget_everywhere_or_nowhere(
    budget: int, something_fits: bool
) -> None:
    rows = select_trained_transformers()
    fitting = rows[rows["needs_bytes"] <= budget]
    assert len(fitting) > 0 if something_fits else fitting.empty
    for framework in FRAMEWORKS:
        in_table = set(fitting[fitting["framework"] == framework]["strategy"])
        advice = ask_advise("transformer", framework, budget)
        advised = {candidate.case.strategy for candidate in advice.fitting}
        form = list_form_rows("transformer", framework)
        in_form = {row["strategy"] for row in form if row["needs"] <= budget / MIB}
        assert advised == in_table
        assert in_form == in_table


def test_the_form_compares_a_budget_with_needed_memory() -> None:
    """The rule of the script is the one of `fits`: needed memory, and no peak."""
    script = (ROOT / "framebench/publish/site/static/form.js").read_text()
    comparisons = re.findall(r"[\w.]+\s*[<>]=?\s*budget\b|\bbudget\s*[<>]=?\s*[\w.]+", script)
    assert set(comparisons) == {"row.needs <= budget"}
