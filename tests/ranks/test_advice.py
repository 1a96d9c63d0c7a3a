"""Advice about one rank of several: from predictions, which are made up here; real ones are in
`test_predicted.py`.
"""

from __future__ import annotations

import json

import pytest

from framebench.analysis.needs import MARGIN
from framebench.engine import environments
from framebench.ranks import predicted
from framebench.ranks.predicted import Prediction, Unpredicted
from framebench.records import provenance
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.processes import framebench

MIB = 2**20
PEAKS = {  # MiB
    "ddp": 182,
    "ddp_bucket_view": 156,
    "zero_optimizer": 156,
    "fsdp_keep": 143,
    "fsdp": 100,
    "checkpoint+fsdp": 60,  # next to strategies over ranks alone
    "amp_bf16+fsdp": 90,  # only where it is named
}


def make_prediction(case: Case, environment: object) -> Prediction:
    """Return a made up prediction. JAX has no prediction."""
    if case.framework == "jax":
        raise Unpredicted("no plan")
    peak = PEAKS[case.strategy] * MIB
    fields = {"rank": 0, "note": "", "versions": {}}
    return Prediction(
        case=case.id, ranks=case.ranks, peak_bytes=peak, parts={"parameters": peak}, **fields
    )


@pytest.fixture(autouse=True)
def made_up(monkeypatch, tmp_path) -> None:
    """Replace predictions by those of this file, and publish no searches."""
    monkeypatch.setattr(provenance, "PUBLISHED", tmp_path)
    monkeypatch.setattr(predicted, "predict_rank_peak", make_prediction)
    monkeypatch.setattr(environments, "ensure", ignore)


@pytest.mark.parametrize(
    ("budget", "fitting"),
    [
        ("151MiB", ["checkpoint+fsdp", "fsdp", "fsdp_keep"]),
        ("150MiB", ["checkpoint+fsdp", "fsdp"]),
    ],
)
def test_strategies_that_fit_with_a_margin_are_listed_leanest_first(budget, fitting, tmp_path):
    """The answer is for every strategy of each framework."""
    needed_by_fsdp_keep = PEAKS["fsdp_keep"] * MARGIN
    assert 150 < needed_by_fsdp_keep < 151, "it lies between the two budgets"
    options = ("--budget", budget, "--ranks", "4", "--results", tmp_path, "--json")

    done = framebench("advise", "transformer/*/train/*/b8", *options, code=0)

    answer = json.loads(done.stdout)
    offered = [offer["case"] for offer in answer["fitting"]]
    assert offered == [f"transformer/torch/train/{name}/b8x4/cpu" for name in fitting]
    assert len(answer["too_large"]) == len(PEAKS) - 1 - len(fitting)
    without_a_plan = {"case": "transformer/jax/train/replicated/b8x4/cpu", "why": "no plan"}
    assert without_a_plan in answer["not_predicted"]


def test_strategies_that_need_as_little_are_all_named(tmp_path, monkeypatch):
    monkeypatch.setitem(PEAKS, "fsdp_keep", PEAKS["checkpoint+fsdp"])
    options = ("--budget", "160MiB", "--ranks", "4", "--results", tmp_path)
    done = framebench("advise", "transformer/torch/train/*/b8", *options, code=0)
    answer = done.stdout.splitlines()[0]
    assert answer.endswith(
        "torch checkpoint+fsdp and torch fsdp_keep need least, equally, 63.0 MiB."
    )


@pytest.mark.parametrize(
    ("budget", "code", "answer"),
    [
        (
            "160MiB",
            0,
            "3 of 6 strategies fit into 160.0 MiB of each rank, as predicted; ",
        ),
        ("50MiB", 1, "0 of 6 strategies fit into 50.0 MiB of each rank, as predicted; "),
    ],
)
def test_the_answer_names_the_leanest_strategy(budget, code, answer, tmp_path):
    options = ("--budget", budget, "--ranks", "4", "--results", tmp_path)
    done = framebench("advise", "transformer/torch/train/*/b8", *options, code=code)
    assert done.stdout.startswith(f"{answer}torch checkpoint+fsdp needs least")


@pytest.mark.parametrize(("strategy", "is_noted"), [("amp_bf16+fsdp", True), ("fsdp", False)])
def test_answers_about_fsdp_under_autocast_say_that_weights_are_copied_whole(
    strategy, is_noted, tmp_path
):
    case = f"transformer/torch/train/{strategy}/b8"
    options = ("--budget", "1GiB", "--ranks", "4", "--results", tmp_path)
    advised = framebench("advise", case, *options, code=0).stdout
    predicted_peak = framebench("predict", case, "--ranks", "4", code=0).stdout
    for answer in (advised, predicted_peak):
        words = " ".join(answer.split())
        assert words.count("autocast keeps a copy of all weights") == is_noted
