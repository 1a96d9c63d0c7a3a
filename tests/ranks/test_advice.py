"""Advice about one rank of several: from predictions, which are made up here; real ones are in
`test_predicted.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.needs import MARGIN
from framebench.engine import environments
from framebench.ranks import predicted
from framebench.ranks.predicted import Prediction, Unpredicted
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
}


def make_prediction(case: Case, environment: object) -> Prediction:
    """Return a made up prediction. Of JAX there is none."""
    if case.framework == "jax":
        raise Unpredicted("no plan")
    peak = PEAKS[case.strategy] * MIB
    fields: dict[str, Any] = {"rank": 0, "note": "", "versions": {}}
    return Prediction(
        case=case.id, ranks=case.ranks, peak_bytes=peak, parts={"parameters": peak}, **fields
    )


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace predictions by those of this file."""
    monkeypatch.setattr(predicted, "predict_rank_peak", make_prediction)
    monkeypatch.setattr(environments, "ensure", ignore)


def test_strategies_that_fit_with_a_margin_are_listed_leanest_first(tmp_path: Path) -> None:
    """The answer is for every strategy of each framework."""
    fsdp, fsdp_keep = (f"transformer/torch/train/{s}/b8x4/cpu" for s in ("fsdp", "fsdp_keep"))
    # what `fsdp_keep` needs lies between the two budgets
    assert 150 < PEAKS["fsdp_keep"] * MARGIN < 151
    for budget, expected in (("151MiB", [fsdp, fsdp_keep]), ("150MiB", [fsdp])):
        options = ("--budget", budget, "--ranks", "4", "--results", str(tmp_path), "--json")
        done = framebench("advise", "transformer/*/train/*/b8", *options)
        assert done.returncode == 0
        answer = json.loads(done.stdout)
        assert [offer["case"] for offer in answer["fitting"]] == expected
        assert len(answer["too_large"]) == len(PEAKS) - len(expected)
        jax = "transformer/jax/train/replicated/b8x4/cpu"
        assert {"case": jax, "why": "no plan"} in answer["not_predicted"]


@pytest.mark.parametrize(
    ("budget", "code", "answer"),
    [
        (
            "160MiB",
            0,
            "2 of 5 strategies fit into 160.0 MiB of each rank, as predicted; torch fsdp",
        ),
        ("50MiB", 1, "0 of 5 strategies fit into 50.0 MiB of each rank, as predicted; torch fsdp"),
    ],
)
def test_the_answer_names_what_needs_least(
    budget: str, code: int, answer: str, tmp_path: Path
) -> None:
    options = ("--budget", budget, "--ranks", "4", "--results", str(tmp_path))
    done = framebench("advise", "transformer/torch/train/*/b8", *options)
    assert done.returncode == code
    assert done.stdout.startswith(answer)
