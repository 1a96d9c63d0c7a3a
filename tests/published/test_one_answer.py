"""Every place that says what a job needs says the same: twenty questions, asked everywhere.

A place is a command, README, the site's form, its headlines, or the DataFrame.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import Any

import pytest

import framebench
from framebench.analysis.peaks import read_evidence
from framebench.analysis.reports.answer import make_answer
from framebench.analysis.results import Results
from framebench.budget.advise.advice import BudgetAdvice, Candidate, Question, advise
from framebench.budget.predict.command import predict_from_records
from framebench.models.spec import load_workload
from framebench.publish.readme.in_words import describe_training
from framebench.publish.site import front
from framebench.publish.site.headlines import make_headlines
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
    question = Question(
        workload, "train", budget, (framework,), batch=BATCHES[workload], by="memory"
    )
    return advise([rows], question, RESULTS.searches)


@cache
def list_form_groups() -> list[Any]:
    (machine,) = [m for m in list_machines(RESULTS.records, RESULTS) if m.name == MACHINE]
    return list(front.list_groups(machine))


def list_form_rows(workload: str, framework: str) -> list[Any]:
    """Return what the site's form knows of training at the usual batch."""
    question = get_title(workload), get_title("train"), "cpu", str(BATCHES[workload])
    for group in list_form_groups():
        asked = group["workload"], group["scenario"], group["size"], group["batch"]
        if asked == question:
            return [row for row in group["rows"] if row["framework"] == get_title(framework)]
    raise LookupError(question)


def make_case(workload: str, framework: str, strategy: str) -> Case:
    return Case(workload, framework, "train", strategy, BATCHES[workload], "cpu")


def find_candidate(advice: BudgetAdvice, strategy: str) -> Candidate:
    (found,) = [c for c in advice.candidates if c.case.strategy == strategy]
    return found


def round_up(needs: float) -> float:
    """Return bytes in MiB as tables print them."""
    return math.ceil(needs / MIB * 10) / 10


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_what_the_baseline_needs_is_one_number_everywhere(workload: str, framework: str) -> None:
    case = make_case(workload, framework, "fp32")
    needs = load_table().set_index("case").loc[case.id, "needs_bytes"]

    advised = find_candidate(ask_advise(workload, framework, UNLIMITED), "fp32").peak.needs
    predicted = predict_from_records(case, MACHINE, RESULTS)
    (in_form,) = [row for row in list_form_rows(workload, framework) if row["base"]]
    answered = make_answer(load_table()).data
    is_job = (answered["workload"] == workload) & (answered["framework"] == framework)

    assert advised == predicted.needs_bytes == needs
    assert in_form["needs"] == round_up(needs)
    assert set(answered.loc[is_job, "base"]) == {needs}


@pytest.mark.parametrize(("workload", "framework"), JOBS)
def test_the_strategy_that_needs_least_is_one_everywhere(workload: str, framework: str) -> None:
    advised = ask_advise(workload, framework, UNLIMITED).fitting[0]
    least = advised.case.strategy, advised.peak.needs

    answered = make_answer(load_table()).data
    is_job = (answered["workload"] == workload) & (answered["framework"] == framework)
    first = answered[is_job].iloc[0]
    (marked,) = [row for row in list_form_rows(workload, framework) if row["least"]]
    title = load_workload(workload).title
    (line,) = [
        line
        for line in describe_training(load_table(), MACHINE).lines
        if line[2:].startswith(title)
    ]
    said = re.search(rf"{get_title(framework)} needs ([\d,]+) MiB with `([^`]+)`", line)
    headlines = make_headlines(load_table())
    (headline,) = [c for c in headlines if c.title.startswith(f"{get_title('train')}, size cpu")]
    in_headline = headline.data.set_index(["workload", "framework"]).loc[
        (get_title(workload), get_title(framework))
    ]

    assert said
    assert (first["strategy"], first["least"]) == least
    assert (marked["strategy"], marked["needs"]) == (least[0], round_up(least[1]))
    assert (said[2], int(said[1].replace(",", ""))) == (least[0], math.ceil(least[1] / MIB))
    assert (in_headline["lean_strategy"], in_headline["lean_needs_bytes"]) == least


@pytest.mark.parametrize("budget", [150 * MIB, 152 * MIB])
def test_a_small_transformer_fits_a_budget_everywhere_or_nowhere(budget: int) -> None:
    df = load_table()
    is_job = (df["workload"] == "transformer") & (df["scenario"] == "train")
    is_compared = df["usable"] & df["same_mathematics"] & ~df["only_for_claims"]
    job = df[is_job & is_compared & (df["batch"] == 4) & (df["size"] == "cpu")]
    for framework in FRAMEWORKS:
        of_framework = job[job["framework"] == framework]
        fitting = set(of_framework.loc[of_framework["needs_bytes"] <= budget, "strategy"])

        advised = {c.case.strategy for c in ask_advise("transformer", framework, budget).fitting}
        form = list_form_rows("transformer", framework)
        in_form = {row["strategy"] for row in form if row["needs"] <= budget / MIB}

        assert advised == fitting
        assert in_form == fitting
    assert bool(fitting_anywhere(job, budget)) == (budget == 152 * MIB)


def fitting_anywhere(job: Any, budget: int) -> list[str]:
    return list(job.loc[job["needs_bytes"] <= budget, "case"])


def test_the_form_compares_a_budget_with_what_is_needed() -> None:
    """The rule of the script is the one of `fits`: needed memory, and no peak."""
    script = (ROOT / "framebench/publish/site/static/form.js").read_text()

    compared = re.findall(r"(row\.\w+) (?:<=|>) budget", script)

    assert set(compared) == {"row.needs"}


def test_try_says_what_a_model_needs_by_the_same_rule() -> None:
    """A need is a peak and what is kept, of a user's model too."""
    from framebench.analysis.needs import compute_needs
    from framebench.user_model.table import find_needs

    row = {
        "peak_bytes": 100.0 * MIB,
        "cold_peak_bytes": None,
        "library_bytes": 20.0 * MIB,
    }

    assert find_needs(row) == compute_needs(100 * MIB, 20 * MIB)
    assert json.dumps(find_needs(row))
