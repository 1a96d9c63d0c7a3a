"""Tolerances follow from how far perturbed steps move, and from nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.worker import tolerances
from framebench.worker.observe import Observed
from framebench.worker.tolerances import (
    FACTOR,
    PERTURBATION,
    ROUNDOFFS,
    RUNS_BEFORE_WRONG,
    PerturbedCase,
    allow_rounded_sums,
    derive_tolerances,
    find_precision,
    list_negligible,
)
from tests.callbacks import ignore

LEAST_TOLERANCE = 1e-4
CASE = parse("transformer/torch/train/fp32/b4/tiny")


def observe_gradients(values: dict[str, float], **norms: float) -> Observed:
    """Return observations of gradients that point along the first projection."""
    gradient = {name: (norm, norm, 0.0, 0.0) for name, norm in norms.items()}
    return Observed(values, {"gradient": gradient})


def test_a_tolerance_is_a_multiple_of_the_largest_response():
    plain = observe_gradients({"loss_0": 2.0}, weight=1.0)
    moved = [
        observe_gradients({"loss_0": 2.0}, weight=1.01),
        observe_gradients({"loss_0": 2.0}, weight=0.98),
    ]
    derived = derive_tolerances(plain, moved, LEAST_TOLERANCE)
    assert derived.get_for_tensor("gradient", "weight") == pytest.approx(FACTOR * 0.02)
    assert derived.values["loss_0"] == LEAST_TOLERANCE


def test_the_same_weight_of_each_block_shares_its_tolerance():
    plain = observe_gradients({}, **{"blocks.0.bias": 1.0, "blocks.1.bias": 1.0, "head": 1.0})
    moved = observe_gradients({}, **{"blocks.0.bias": 1.0, "blocks.1.bias": 1.01, "head": 1.0})
    derived = derive_tolerances(plain, [moved], LEAST_TOLERANCE)
    own = derive_tolerances(plain, [moved], LEAST_TOLERANCE, by_family=False)
    assert derived.get_for_tensor("gradient", "blocks.0.bias") == pytest.approx(FACTOR * 0.01)
    assert own.get_for_tensor("gradient", "blocks.0.bias") == LEAST_TOLERANCE
    assert own.get_for_tensor("gradient", "blocks.1.bias") == pytest.approx(FACTOR * 0.01)


def test_an_unmoved_tensor_has_the_tolerance_of_its_kind():
    plain = observe_gradients({}, first=1.0, second=1.0, lucky=1.0)
    moved = observe_gradients({}, first=1.03, second=1.02, lucky=1.0)
    derived = derive_tolerances(plain, [moved], LEAST_TOLERANCE)
    assert derived.get_for_tensor("gradient", "lucky") == pytest.approx(FACTOR * 0.02)


@pytest.mark.parametrize("by", ["name", "size"])
def test_a_gradient_that_is_only_rounding_does_not_count_for_its_family(by):
    """`0.bias` is only rounding, since a batch norm follows it.

    By its name it is of one family with `3.bias`, whose tolerance must not grow by it.
    """
    plain = observe_gradients({}, **{"0.bias": 1e-9, "3.bias": 1.0, "3.weight": 1.0})
    moved = observe_gradients({}, **{"0.bias": 2e-9, "3.bias": 1.01, "3.weight": 1.01})
    left_out = {"0.bias"} if by == "name" else list_negligible(plain.tensors)
    derived = derive_tolerances(plain, [moved], LEAST_TOLERANCE, left_out=left_out)
    assert derived.get_for_tensor("gradient", "3.bias") == pytest.approx(FACTOR * 0.01)
    assert derived.get_for_tensor("gradient", "3.weight") == pytest.approx(FACTOR * 0.01)


class PerturbedSteps:
    """Stands in for the repetitions of a case's steps, whose weight moves in one of them."""

    def __init__(self, seconds: float, moves_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = seconds
        self.moves_at = moves_at
        self.plain = observe_gradients({"loss_0": 2.0}, weight=1.0)
        self.seeds: list[int] = []
        self.adapter: Any = SimpleNamespace(case=CASE, can_restore=True)
        monkeypatch.setattr(tolerances, "observe_perturbed", self.observe_perturbed)
        monkeypatch.setattr(tolerances, "restart", ignore)
        monkeypatch.setattr(
            tolerances, "make_first_steps", Mock(return_value=([seconds], self.plain))
        )

    def observe_perturbed(
        self, adapter: object, seed: int, perturbation: float
    ) -> tuple[list[float], Observed]:
        self.seeds.append(seed)
        factor = 1.05 if seed == self.moves_at else 1.0
        return [self.seconds], observe_gradients({"loss_0": 2.0 * factor}, weight=factor)


@pytest.mark.parametrize(
    ("step_s", "repetitions"), [(0.1, 2), (9.0, 1)], ids=["fast steps", "slow steps"]
)
def test_more_repetitions_widen_the_tolerances(step_s, repetitions, monkeypatch):
    """In the first runs of the step the perturbation moves nothing, by chance.

    On a loaded machine a step may take long, which must not narrow the tolerances.
    """
    steps = PerturbedSteps(step_s, moves_at=5, monkeypatch=monkeypatch)
    first = tolerances.observe_steps(steps.adapter)
    assert steps.seeds == list(range(repetitions))
    assert first.tolerances.values["loss_0"] == PERTURBATION["fp32"]

    more = tolerances.observe_more(steps.adapter, first)
    assert steps.seeds == list(range(RUNS_BEFORE_WRONG))
    assert len(more.seconds) == RUNS_BEFORE_WRONG + 2, "of all steps, the first of which compiles"
    assert more.tolerances.values["loss_0"] == pytest.approx(FACTOR * 0.05)
    assert more.tolerances.get_for_tensor("gradient", "weight") == pytest.approx(FACTOR * 0.05)


def test_losses_share_their_tolerance_and_a_norm_has_its_own():
    plain = observe_gradients({"loss_0": 1.0, "loss_1": 1.0, "grad_norm": 1.0})
    moved = observe_gradients({"loss_0": 1.0, "loss_1": 1.001, "grad_norm": 1.01})
    derived = derive_tolerances(plain, [moved], LEAST_TOLERANCE)
    assert derived.values["loss_0"] == derived.values["loss_1"] == pytest.approx(FACTOR * 0.001)
    assert derived.values["grad_norm"] == pytest.approx(FACTOR * 0.01)


def test_infinite_responses_explain_nothing():
    plain = observe_gradients({"loss_0": 1.0}, weight=1.0)
    broken = observe_gradients({"loss_0": float("nan")}, weight=float("inf"))
    derived = derive_tolerances(plain, [broken], LEAST_TOLERANCE)
    assert (
        derived.values["loss_0"] == derived.get_for_tensor("gradient", "weight") == LEAST_TOLERANCE
    )


@pytest.mark.parametrize(
    ("perturbation", "roundoff"),
    [(PERTURBATION["fp32"], 2.0**-24), (2.0**-36, 0.0)],
    ids=["in float32", "in float64, as it is less than float32 rounds by"],
)
def test_weights_are_off_by_uniform_shares_up_to_the_perturbation(perturbation, roundoff):
    plain = CASE.weights
    perturbed = PerturbedCase.perturb(CASE, 0, perturbation).weights
    assert plain.keys() == perturbed.keys()
    shares_by_weight = []
    for name, weight in plain.items():
        share = perturbed[name] / weight.astype(float) - 1
        shares_by_weight.append(share.ravel())
    shares = np.concatenate(shares_by_weight)

    largest = np.abs(shares).max()
    assert 0.5 * perturbation < largest < 1.01 * perturbation + roundoff
    deviation_of_uniform_shares = perturbation / 3**0.5
    assert np.std(shares) == pytest.approx(deviation_of_uniform_shares, rel=0.05)


def test_another_seed_perturbs_differently():

    def perturb(seed):
        return PerturbedCase.perturb(CASE, seed, 2.0**-14).weights["wte.weight"]

    one, same, other = perturb(0), perturb(0), perturb(1)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("narrow", "strategy", "precision"),
    [(True, "fp32", "bf16"), (True, "amp_fp16", "fp16"), (False, "fp32", "fp32")],
)
def test_file_that_casts_by_itself_has_the_tolerances_of_bfloat16(
    narrow, strategy, precision, monkeypatch
):
    facts = SimpleNamespace(facts={"narrow": narrow})
    monkeypatch.setattr(Case, "workload_spec", property(lambda case: facts))
    assert find_precision(Case("own", "torch", "train", strategy, 4, "mine")) == precision


USES = 19  # of a weight that a decoder uses in each of its steps


@pytest.mark.parametrize(
    ("off", "losses", "is_allowed"),
    [
        (0.9, (2.0, 2.0), True),
        (1.5, (2.0, 2.0), False),  # a sum of so many terms is not off by more
        (0.9, (2.0, 2.0001), False),  # the forward pass was another one
    ],
    ids=["of sums", "beyond sums", "before sums"],
)
def test_the_measured_error_of_rounded_sums_is_allowed_and_no_other(off, losses, is_allowed):
    case = parse("transformer/torch/train/amp_bf16/b4/tiny")
    error = off * FACTOR * USES * PERTURBATION["bf16"] / ROUNDOFFS
    rounded = observe_gradients({"loss_0": losses[0]}, shared=1.0 + error, other=1.0)
    exact = observe_gradients({"loss_0": losses[1]}, shared=1.0, other=1.0)
    strict = derive_tolerances(rounded, [rounded], LEAST_TOLERANCE)

    allowed = allow_rounded_sums(case, strict, rounded, exact, USES)

    widening = pytest.approx(error / (1 + error)) if is_allowed else 0
    tolerance = allowed.get_for_tensor("gradient", "shared")
    assert tolerance - strict.get_for_tensor("gradient", "shared") == widening
    assert allowed.get_for_tensor("gradient", "other") == LEAST_TOLERANCE
    assert allowed.values["loss_0"] == LEAST_TOLERANCE
