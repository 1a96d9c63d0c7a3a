"""Advice about one rank of several: from predictions, which are made up here; real ones are in `test_predicted.py`."""

from __future__ import annotations

import json

import pytest

from framebench.analysis.peaks import MARGIN
from framebench.engine import environments
from framebench.ranks import advice as ranks
from framebench.ranks import predicted as predicted_rank
from framebench.ranks.advice import RankOffer
from framebench.ranks.cases import over_ranks
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case
from tests.processes import framebench

MIB = 2**20
PEAKS = {"ddp": 182, "ddp_bucket_view": 156, "zero_optimizer": 156, "fsdp_keep": 143, "fsdp": 100}


def predicted(case: Case, environment: object = None) -> Prediction:
    """JAX's has none."""
    if case.framework == "jax":
        raise predicted_rank.Unpredicted("no plan")
    peak = PEAKS[case.strategy] * MIB
    return Prediction(
        case=case.id, ranks=case.ranks, rank=0, peak_bytes=peak, parts={"parameters": peak}, note="", versions={"torch": "2"}
    )


def offers() -> list[RankOffer]:
    cases = [over_ranks(f"transformer/torch/train/{name}/b8", 4) for name in PEAKS]
    unknown = RankOffer(over_ranks("transformer/torch/train/deepspeed_zero3/b8", 4), why="nobody knows")
    return [*(RankOffer(case, predicted(case)) for case in cases), unknown]


def test_what_fits_needs_a_margin_and_the_leanest_comes_first() -> None:
    exactly = round(143 * MARGIN * MIB) + 1
    assert [o.case.strategy for o in ranks.fitting(offers(), exactly)] == ["fsdp", "fsdp_keep"]
    assert [o.case.strategy for o in ranks.fitting(offers(), exactly - 2 * MIB)] == ["fsdp"]
    assert [o.case.strategy for o in ranks.beyond(offers(), exactly)] == ["ddp_bucket_view", "zero_optimizer", "ddp"]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicted_rank, "predict", predicted)
    monkeypatch.setattr(environments, "ensure", lambda framework, say: None)


@pytest.mark.usefixtures("made_up")
def test_the_command_answers_for_every_strategy_of_each_framework() -> None:
    done = framebench("advise", "transformer/*/train/*/b8", "--budget", "160MiB", "--ranks", "4", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert [one["case"] for one in found["fitting"]] == [
        f"transformer/torch/train/{name}/b8x4/cpu" for name in ("fsdp", "fsdp_keep")
    ]
    assert {one["judged_by"] for one in found["fitting"] + found["too_large"]} == {"predicted"}
    assert {one["case"].split("/")[3]: one["why"] for one in found["not_predicted"]}["replicated"] == "no plan"
    assert framebench("advise", "transformer/torch/train/*/b8", "--budget", "50MiB", "--ranks", "4").returncode == 1
