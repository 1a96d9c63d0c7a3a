"""Tolerances follow from how far perturbed steps move, and from nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.worker import tolerances
from framebench.worker.observe import Observed
from framebench.worker.tolerances import (
    DIGITS_LOST,
    FACTOR,
    PERTURBATION,
    ObservedSteps,
    PerturbedCase,
    derive_tolerances,
    find_precision,
    list_negligible,
)

LEAST = 1e-4
CASE = parse("transformer/torch/train/fp32/b4/tiny")


def observed(values: dict[str, float], **norms: float) -> Observed:
    """Return observations of gradients that point along the first projection."""
    return Observed(
        values, {"gradient": {name: (norm, norm, 0.0, 0.0) for name, norm in norms.items()}}
    )


def test_a_tolerance_is_a_multiple_of_the_largest_response() -> None:
    plain = observed({"loss_0": 2.0}, weight=1.0)
    moved = [observed({"loss_0": 2.0}, weight=1.01), observed({"loss_0": 2.0}, weight=0.98)]
    assert derive_tolerances(plain, moved, LEAST).of_tensor("gradient", "weight") == pytest.approx(
        FACTOR * 0.02
    )


def test_no_tolerance_is_below_the_least() -> None:
    plain = observed({"loss_0": 2.0}, weight=1.0)
    still = derive_tolerances(plain, [plain], LEAST)
    assert still.of_value("loss_0") == still.of_tensor("gradient", "weight") == LEAST


def test_the_same_weight_of_each_block_shares_its_tolerance() -> None:
    names = ("blocks.0.bias", "blocks.1.bias", "head")
    plain = Observed({}, {"gradient": dict.fromkeys(names, (1.0, 1.0, 0.0, 0.0))})
    moved = Observed({}, {"gradient": dict.fromkeys(names, (1.0, 1.0, 0.0, 0.0))})
    moved.tensors["gradient"]["blocks.1.bias"] = (1.01, 1.01, 0.0, 0.0)
    found = derive_tolerances(plain, [moved], LEAST)
    shared = found.of_tensor("gradient", "blocks.0.bias")
    assert shared == found.of_tensor("gradient", "blocks.1.bias") == pytest.approx(FACTOR * 0.01)


def test_a_tensor_that_stayed_by_luck_has_the_usual_tolerance_of_its_kind() -> None:
    plain = observed({}, first=1.0, second=1.0, lucky=1.0)
    moved = observed({}, first=1.03, second=1.02, lucky=1.0)
    assert derive_tolerances(plain, [moved], LEAST).of_tensor("gradient", "lucky") == pytest.approx(
        FACTOR * 0.02
    )


def test_what_is_nothing_but_rounding_widens_no_tolerance() -> None:
    """The bias of a convolution before a batch norm is of the same family as every bias of an
    nn.Sequential.
    """
    plain = observed({}, **{"0.bias": 1e-9, "3.bias": 1.0, "3.weight": 1.0})
    moved = observed({}, **{"0.bias": 2e-9, "3.bias": 1.01, "3.weight": 1.01})

    by_name = derive_tolerances(plain, [moved], LEAST, left_out=["0.bias"])
    by_size = derive_tolerances(plain, [moved], LEAST, left_out=list_negligible(plain.tensors))

    for found in (by_name, by_size):
        assert found.of_tensor("gradient", "3.bias") == pytest.approx(FACTOR * 0.01)
        assert found.of_tensor("gradient", "3.weight") == pytest.approx(FACTOR * 0.01)


def test_in_float64_each_tensor_has_its_own_tolerance() -> None:
    plain = observed({}, **{"blocks.0.bias": 1.0, "blocks.1.bias": 1.0, "head": 1.0})
    moved = observed({}, **{"blocks.0.bias": 1.0, "blocks.1.bias": 2.0, "head": 1.0})

    found = derive_tolerances(plain, [moved], LEAST, shared=False)

    assert found.of_tensor("gradient", "blocks.0.bias") == LEAST
    assert found.of_tensor("gradient", "blocks.1.bias") > 1


def test_a_tensor_that_no_repetition_had_has_the_usual_tolerance() -> None:
    plain = observed({}, first=1.0, second=1.0, left=1.0)
    moved = observed({}, first=1.01, second=1.02, left=5.0)
    found = derive_tolerances(plain, [moved], LEAST, left_out=["left"])
    assert found.of_tensor("gradient", "left") == pytest.approx(FACTOR * 0.01)


@pytest.mark.parametrize(("seconds", "asked"), [(0.1, [2, 3, 4, 5, 6, 7]), (9.0, [])])
def test_more_repetitions_widen_the_tolerances_where_a_step_is_fast(
    seconds: float, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two left everything where it was by chance; the sixth moves it by 5 %."""
    plain = observed({"loss_0": 2.0}, weight=1.0)
    seeds = []

    def observe_perturbed(
        adapter: object, seed: int, perturbation: float
    ) -> tuple[list[float], Observed]:
        seeds.append(seed)
        moved = 0.05 * (seed == 5)
        return [seconds], observed({"loss_0": 2.0 * (1 + moved)}, weight=1 + moved)

    monkeypatch.setattr(tolerances, "observe_perturbed", observe_perturbed)
    monkeypatch.setattr(tolerances, "restart", lambda adapter: None)
    monkeypatch.setattr(tolerances, "make_first_steps", lambda adapter: ([seconds], plain))
    first = ObservedSteps(
        [seconds], plain, derive_tolerances(plain, [plain], LEAST), (plain, plain)
    )

    more = tolerances.observe_more(SimpleNamespace(case=CASE), first)  # type: ignore[arg-type]

    assert seeds == asked
    widest = FACTOR * 0.05 if asked else PERTURBATION["fp32"]
    assert more.tolerances.of_value("loss_0") == pytest.approx(widest)
    assert more.tolerances.of_tensor("gradient", "weight") == pytest.approx(widest)


def test_a_slow_step_is_repeated_twice_before_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a step may take long, which must not narrow the tolerances that
    decide.
    """
    plain = observed({}, weight=1.0)
    seeds = []

    def observe_perturbed(
        adapter: object, seed: int, perturbation: float
    ) -> tuple[list[float], Observed]:
        seeds.append(seed)
        return [9.0], observed({}, weight=1.05)

    monkeypatch.setattr(tolerances, "observe_perturbed", observe_perturbed)
    monkeypatch.setattr(tolerances, "restart", lambda adapter: None)
    monkeypatch.setattr(tolerances, "make_first_steps", lambda adapter: ([9.0], plain))

    first = tolerances.observe_steps(SimpleNamespace(case=CASE, can_restore=True))  # type: ignore[arg-type]
    assert seeds == [0]
    more = tolerances.observe_more(SimpleNamespace(case=CASE), first)  # type: ignore[arg-type]
    assert seeds == [0, 1]
    assert len(more.seconds) == 4, "those of all steps, the first of which compiles"


def test_of_a_tensor_whose_digits_are_lost_only_the_size_is_compared() -> None:
    plain = observed({}, weight=1.0, bias=1.0)
    moved = observed({}, weight=1.01, bias=1.1)

    found = derive_tolerances(plain, [moved], LEAST)

    assert found.of_tensor("gradient", "weight") < DIGITS_LOST
    assert 0.5 < found.of_tensor("gradient", "bias") < 1, "a gradient that is missing is off by 1"


def test_losses_share_their_tolerance_and_a_norm_has_its_own() -> None:
    plain = observed({"loss_0": 1.0, "loss_1": 1.0, "grad_norm": 1.0})
    moved = observed({"loss_0": 1.0, "loss_1": 1.001, "grad_norm": 1.01})
    found = derive_tolerances(plain, [moved], LEAST)
    assert found.of_value("loss_0") == found.of_value("loss_1") == pytest.approx(FACTOR * 0.001)
    assert found.of_value("grad_norm") == pytest.approx(FACTOR * 0.01)


def test_what_must_not_move_has_the_least_tolerance() -> None:
    """A frozen weight's change is zero, and its error is infinite as soon as it moves."""
    plain, moved = observed({}, frozen=0.0), observed({}, frozen=1e-3)
    assert derive_tolerances(plain, [moved], LEAST).of_tensor("gradient", "frozen") == LEAST


def test_infinite_responses_explain_nothing() -> None:
    plain = observed({"loss_0": 1.0}, weight=1.0)
    broken = observed({"loss_0": float("nan")}, weight=float("inf"))
    found = derive_tolerances(plain, [broken], LEAST)
    assert found.of_value("loss_0") == found.of_tensor("gradient", "weight") == LEAST


@pytest.mark.parametrize("perturbation", [PERTURBATION["fp32"], PERTURBATION["bf16"], 2.0**-36])
def test_each_weight_is_off_by_a_share_of_the_perturbation(perturbation: float) -> None:
    plain = CASE.weights
    perturbed = PerturbedCase.of_case(CASE, 0, perturbation).weights
    assert plain.keys() == perturbed.keys()
    off = np.concatenate(
        [(perturbed[name] / plain[name].astype(float) - 1).ravel() for name in plain]
    )
    assert (
        0.5 * perturbation
        < np.abs(off).max()
        < 1.01 * perturbation + 2.0**-24 * (perturbation > 2.0**-24)
    )
    assert np.std(off) == pytest.approx(perturbation / 3**0.5, rel=0.05)


def test_each_seed_perturbs_otherwise_and_the_same_seed_alike() -> None:
    one, same, other = (
        PerturbedCase.of_case(CASE, seed, 2.0**-14).weights["wte.weight"] for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("narrow", "strategy", "precision"),
    [(True, "fp32", "bf16"), (True, "amp_fp16", "fp16"), (False, "fp32", "fp32")],
)
def test_a_file_that_casts_by_itself_is_compared_as_bfloat16_is(
    narrow: bool, strategy: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = SimpleNamespace(facts={"narrow": narrow})
    monkeypatch.setattr(Case, "spec", property(lambda case: facts))
    assert find_precision(Case("own", "torch", "train", strategy, 4, "mine")) == precision
