"""Advice about a Transformer that is only described by its parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.peaks import read_evidence
from framebench.budget.advise.advice import Question, advise
from framebench.models import spec
from framebench.suite.hypothetical import Described
from framebench.suite.selectors import parse
from tests.advice_records import everything
from tests.budget.conftest import Predicted
from tests.sample_records import MACHINE, RESULTS

DESCRIBED = Question(
    "transformer",
    "train",
    2**40,
    ("torch",),
    8,
    "124M",
    spec.load_workload("transformer").described(124e6, 1024),
)


def test_a_number_of_parameters_gives_the_shape_of_a_published_model() -> None:
    config = DESCRIBED.shape

    assert (config.layers, config.width, config.heads) == (12, 768, 12)
    assert spec.load_workload("transformer").parameter_count(config) == 124_475_904


def test_layers_or_width_of_a_described_model_may_be_given() -> None:
    describe = spec.load_workload("transformer").described

    assert describe(355e6, 1024, layers=24).width == 1024
    assert describe(355e6, 1024, width=1024).layers == 24


def test_a_number_of_parameters_that_no_shape_has_is_refused() -> None:
    describe = spec.load_workload("transformer").described

    with pytest.raises(ValueError, match="the closest has"):
        describe(1e6, 1024)


def test_a_described_case_is_like_the_declared_one_of_the_same_shape() -> None:
    config = DESCRIBED.shape
    like = Described("transformer", "torch", "train", "fp32", 8, "124M", shape=config)
    assert compute_lower_bound(like) == compute_lower_bound(
        parse("transformer/torch/train/fp32/b8/full")
    )
    narrow = replace(like, strategy="width_half")
    assert narrow.config.width == 384


def test_a_described_transformer_is_only_ever_predicted() -> None:
    rows, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
    advice = advise([rows], DESCRIBED)
    assert {o.case.strategy for o in advice.fitting} >= {"fp32", "checkpoint"}
    assert {o.peak.kind for o in everything(advice)} == {"predicted"}
    for o in advice.fitting:
        assert o.peak.low is not None
        assert compute_lower_bound(o.case).total <= o.peak.low <= o.peak.value <= o.peak.needs
    assert advice.changed == []


@pytest.mark.slow
def test_a_described_transformers_interval_holds_what_fake_tensors_count(
    predicted: Predicted,
) -> None:
    """An independent prediction of the same model, 18 times as large as any that was measured."""
    rows, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
    offers = {o.case.strategy: o for o in advise([rows], DESCRIBED).fitting}
    wanted = [s for s in ("fp32", "checkpoint") if s in offers]
    found = predicted(*(f"transformer/torch/train/{s}/b8/full" for s in wanted))
    for strategy, counted in zip(wanted, found.values()):
        peak = offers[strategy].peak
        assert (peak.low or 0) <= counted["predicted"] <= (peak.high or 0), strategy
