"""Advice about one rank of several: from predictions, which are made up here; real ones are in
`test_predicted.py`.
"""

from __future__ import annotations

import json

import pytest

from framebench.analysis.needs import MARGIN
from framebench.engine import environments
from framebench.ranks import advice, predicted
from framebench.ranks.advice import RankOffer
from framebench.ranks.cases import over_ranks
from framebench.ranks.predicted import Unpredicted
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case
from tests.processes import framebench

MIB = 2**20
PEAKS = {
    "ddp": 182,
    "ddp_bucket_view": 156,
    "zero_optimizer": 156,
    "fsdp_keep": 143,
    "fsdp": 100,
}  # MiB


def make_prediction(case: Case, environment: object = None) -> Prediction:
    """Return a made up prediction. Of JAX there is none."""
    if case.framework == "jax":
        raise Unpredicted("no plan")
    peak = PEAKS[case.strategy] * MIB
    return Prediction(
        case=case.id,
        ranks=case.ranks,
        rank=0,
        peak_bytes=peak,
        parts={"parameters": peak},
        note="",
        versions={"torch": "2"},
    )


@pytest.fixture
def offers() -> list[RankOffer]:
    cases = [over_ranks(f"transformer/torch/train/{name}/b8", 4) for name in PEAKS]
    return [RankOffer(case, make_prediction(case)) for case in cases]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command take the predictions of this file."""
    monkeypatch.setattr(predicted, "predict_rank_peak", make_prediction)
    monkeypatch.setattr(environments, "ensure", lambda framework, say: None)


def strategies(offers: list[RankOffer]) -> list[str]:
    """Return the names of the strategies."""
    return [offer.case.strategy for offer in offers]


def test_what_fits_needs_a_margin_and_the_leanest_comes_first(offers: list[RankOffer]) -> None:
    exactly = round(143 * MARGIN * MIB) + 1
    answer = advice.judge(offers, [], exactly)
    assert strategies(answer.fitting) == ["fsdp", "fsdp_keep"]
    assert strategies(answer.too_large) == ["ddp_bucket_view", "zero_optimizer", "ddp"]
    less = advice.judge(offers, [], exactly - 2 * MIB)
    assert strategies(less.fitting) == ["fsdp"]


def test_the_answer_names_what_needs_least(offers: list[RankOffer]) -> None:
    fits = advice.judge(offers, [], 160 * MIB)
    assert advice.summarize(fits).startswith(
        "2 of 5 strategies fit into 160.0 MiB of each rank, as predicted; torch fsdp needs"
    )
    too_small = advice.judge(offers, [], 50 * MIB)
    assert advice.summarize(too_small).startswith(
        "Of the 5 strategies that are predicted none fits into 50.0 MiB of each rank"
    )
    assert "torch fsdp needs" in advice.summarize(too_small)


@pytest.mark.usefixtures("made_up")
def test_the_command_answers_for_every_strategy_of_each_framework() -> None:
    done = framebench(
        "advise", "transformer/*/train/*/b8", "--budget", "200MiB", "--ranks", "4", "--json"
    )
    assert done.returncode == 0
    printed = json.loads(done.stdout)
    fitting = [offer["case"] for offer in printed["fitting"]]
    assert fitting == [
        "transformer/torch/train/fsdp/b8x4/cpu",
        "transformer/torch/train/fsdp_keep/b8x4/cpu",
    ]
    assert {offer["judged_by"] for offer in printed["fitting"] + printed["too_large"]} == {
        "predicted"
    }
    reasons = {unpredicted["case"]: unpredicted["why"] for unpredicted in printed["not_predicted"]}
    assert reasons["transformer/jax/train/replicated/b8x4/cpu"] == "no plan"


@pytest.mark.usefixtures("made_up")
def test_the_command_fails_where_nothing_fits() -> None:
    done = framebench("advise", "transformer/torch/train/*/b8", "--budget", "50MiB", "--ranks", "4")
    assert done.returncode == 1
