"""Verification accepts the float64 values themselves, and refuses them with one thing changed."""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from framebench.suite.case import Case
from framebench.suite.protocol import Reference, VerifiedBlock
from framebench.suite.result import Verification
from framebench.suite.selectors import parse
from framebench.worker import laziness_check, verification
from framebench.worker.observe import RETAINED, Observed, unbias_running_variances
from framebench.worker.stepping import make_timed_step
from framebench.worker.tolerances import ObservedSteps, Tolerances, derive_tolerances
from framebench.worker.verification import (
    compare,
    compare_tensors,
    compute_state_bytes,
    confirm_first_steps,
    describe_other_outputs,
    find_reference,
    verify,
    verify_again,
)
from tests.worker.fake_adapter import ScriptedAdapter

TRAIN = parse("transformer/torch/train/fp32/b4/tiny")
EVAL = parse("transformer/torch/eval/no_grad/b4/tiny")
FROZEN = parse("resnet50/torch/finetune/half/b4/tiny")
ALLOWED = 1e-3  # of every value and tensor
LOSSES = [3.0, 2.0, 1.0]


def make_adapter(case: Case) -> Any:
    return ScriptedAdapter(case)


def observe_right(case: Case) -> Observed:
    """Return the reference values as if a case had computed them."""
    reference = copy.deepcopy(find_reference(case))
    observed = Observed(reference.values, reference.tensors)
    if case.scenario_spec.trains:
        observed.state_bytes = compute_state_bytes(case, observed)
    return observed


def make_tolerances(case: Case) -> Tolerances:
    """Return the tolerances of a step that no perturbation moves."""
    return derive_tolerances(observe_right(case), [observe_right(case)], ALLOWED)


def verify_observed(case: Case, observed: Observed) -> Verification:
    return verify(make_adapter(case), observed, make_tolerances(case))


def observe_norms(kind: str, norms: dict[str, float]) -> Observed:
    """Return tensors of one kind that point along the first projection."""
    summaries = {name: (norm, norm, 0.0, 0.0) for name, norm in norms.items()}
    return Observed({}, {kind: summaries})


def test_known_fault_of_the_framework_fails_a_right_result():
    adapter = make_adapter(TRAIN)
    observed = observe_right(TRAIN)
    assert verify(adapter, observed, make_tolerances(TRAIN)).passed
    adapter.known_fault = "a kernel leaves it unwritten"
    found = verify(adapter, observed, make_tolerances(TRAIN))
    assert not found.passed
    assert found.known_fault
    assert found.reason == "a kernel leaves it unwritten"


@pytest.mark.parametrize("case", [TRAIN, EVAL, FROZEN], ids=str)
def test_reference_itself_passes_with_all_of_its_tensors(case):
    observed = observe_right(case)
    found = verify_observed(case, observed)
    assert (found.passed, found.margin, found.reason) == (True, 0, None)
    right = observe_right(case).tensors
    assert right
    for kind, summaries in right.items():
        assert found.tensors[kind].count == len(summaries)


@pytest.mark.parametrize(("times", "passes"), [(2, False), (0.5, True)])
def test_every_tensor_must_be_within_its_tolerance(times, passes):
    right = observe_right(TRAIN).tensors
    assert right
    for kind, summaries in right.items():
        assert summaries, kind
        for name, (norm, *projections) in summaries.items():
            observed = observe_right(TRAIN)
            observed.tensors[kind][name] = (norm * (1 + times * ALLOWED), *projections)
            found = verify_observed(TRAIN, observed)
            assert found.passed == passes
            assert found.margin == pytest.approx(times)
            assert found.tensors[kind].worst == name
            assert found.tensors[kind].failed == (not passes)


def test_missing_and_extra_states_are_wrong():
    observed = observe_right(TRAIN)
    observed.tensors["max_exp_avg_sq"] = dict(observed.tensors["second moment"])
    del observed.tensors["second moment"]["ln_f.bias"]
    reason = str(verify_observed(TRAIN, observed).reason)
    assert "max_exp_avg_sq of" in reason
    assert "no second moment of 1 tensors, such as ln_f.bias" in reason


def test_states_of_half_the_bytes_are_wrong():
    observed = observe_right(TRAIN)
    assert observed.state_bytes == 2 * 4 * TRAIN.workload_spec.parameter_count(TRAIN.config)
    observed.state_bytes //= 2
    assert "bytes instead of" in str(verify_observed(TRAIN, observed).reason)


def test_frozen_weight_that_moved_is_wrong():
    observed = observe_right(FROZEN)
    assert observed.tensors["weight"]["conv1.weight"][0] == 0
    observed.tensors["weight"]["conv1.weight"] = (1e-12, 0.0, 0.0, 0.0)
    found = verify_observed(FROZEN, observed)
    assert not found.passed
    assert found.tensors["weight"].error == math.inf


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_values_that_are_not_finite_fail_verification(number):
    for_loss, for_tensor = observe_right(TRAIN), observe_right(TRAIN)
    for_loss.values["loss_1"] = number
    for_tensor.tensors["weight"]["ln_f.bias"] = (number, 0.0, 0.0, 0.0)
    assert not verify_observed(TRAIN, for_loss).passed
    found = verify_observed(TRAIN, for_tensor)
    assert not found.passed
    assert found.tensors["weight"].worst == "ln_f.bias"


LOSS_NAMES = {TRAIN: ["loss_0", "loss_1"], EVAL: ["loss"]}


def confirm_losses(case: Case, wrong: str) -> Verification:
    """Confirm the first steps of a later block, whose losses are the reference's but for `wrong`.

    The wrong loss is off by twice its tolerance.
    """
    reference = find_reference(case)
    losses = {name: reference.values[name] for name in LOSS_NAMES[case]}
    if wrong:
        losses[wrong] *= 1 + 2 * ALLOWED
    block = VerifiedBlock("s/group/0.0", dict.fromkeys(losses, ALLOWED))
    _, found = confirm_first_steps(ScriptedAdapter(case, losses.values()), reference, block)
    return found


@pytest.mark.parametrize(
    ("case", "wrong"),
    [(TRAIN, ""), (TRAIN, "loss_0"), (TRAIN, "loss_1"), (EVAL, ""), (EVAL, "loss")],
    ids=str,
)
def test_a_later_block_has_the_right_losses_and_names_the_block_that_verified_it(case, wrong):
    found = confirm_losses(case, wrong)
    assert (found.passed, found.verified_in) == (not wrong, "s/group/0.0")
    assert list(found.golden) == LOSS_NAMES[case], "no other value is compared"


@pytest.fixture
def without_steps(monkeypatch) -> None:
    """Let steps take no time, and never be late."""
    monkeypatch.setattr(verification, "describe_late_result", Mock(return_value=""))
    for module in (verification, laziness_check):
        monkeypatch.setattr(module, "make_timed_step", Mock(return_value=0.1))


def make_timed_adapter(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an adapter after its timed steps, whose first steps repeated give `observed`."""
    monkeypatch.setattr(verification, "make_first_steps", Mock(return_value=([0.1, 0.1], observed)))
    adapter = ScriptedAdapter(TRAIN, LOSSES)
    adapter.steps = 3 + len(LOSSES)
    adapter.outputs_per_step = Counter({1: 5})
    return adapter


@pytest.mark.usefixtures("without_steps")
def test_timed_step_is_verified_again(monkeypatch):
    adapter = make_timed_adapter(observe_right(TRAIN), monkeypatch)
    assert verify_again(adapter, LOSSES, make_tolerances(TRAIN)).passed
    assert adapter.is_restored


@pytest.mark.usefixtures("without_steps")
@pytest.mark.parametrize("kind", ["gradient", "weight", "second moment"])
def test_second_verification_compares_every_tensor(kind, monkeypatch):
    """A program may halve the learning rate after the first verification, for example."""
    observed = observe_right(TRAIN)
    for name, summary in observed.tensors[kind].items():
        observed.tensors[kind][name] = tuple(number / 2 for number in summary)
    adapter = make_timed_adapter(observed, monkeypatch)
    found = verify_again(adapter, LOSSES, make_tolerances(TRAIN))
    assert not found.passed
    assert found.tensors[kind].failed == found.tensors[kind].count


@pytest.mark.usefixtures("without_steps")
def test_steps_that_leave_the_loss_are_wrong(monkeypatch):
    adapter = make_timed_adapter(observe_right(TRAIN), monkeypatch)
    found = verify_again(adapter, [3.0, 2.0, 2.0, 1.0, 1.0], make_tolerances(TRAIN))
    assert (found.passed, found.unmoved_steps) == (False, 2)


class IrregularAdapter(ScriptedAdapter):
    """Its first step sets two outputs, and each later one the number in `later`."""

    def __init__(self, later: int) -> None:
        super().__init__(TRAIN)
        self.later = later

    def step(self) -> None:
        self.outputs += self.later if self.outputs else 2


@pytest.mark.parametrize("later", [0, 1, 3])
def test_timed_steps_with_more_or_fewer_outputs_than_the_first_are_counted(later):
    adapter = IrregularAdapter(later)
    make_timed_step(adapter)
    assert describe_other_outputs(adapter) == ""
    for _ in range(5):
        make_timed_step(adapter)
    assert adapter.outputs_per_step == {2: 1, later: 5}, "steps by their number of outputs"
    message = "5 of 6 steps gave more or fewer outputs than the first"
    assert describe_other_outputs(adapter) == message


UNIT = 2.0**-23  # in the last place of a float32 weight of about 1


def measure_margin(change: float, expected_change: float, has_gradient: bool) -> float:
    """Return the margin of a step that changed one weight of about 1 by `change`."""
    name = "blocks.0.ln1.weight"
    observed = observe_right(TRAIN)
    expected = observe_right(TRAIN)
    observed.tensors["weight"][name] = (change, change, 0.0, 0.0)
    expected.tensors["weight"][name] = (expected_change, expected_change, 0.0, 0.0)
    if not has_gradient:
        del observed.tensors["gradient"][name]
        del expected.tensors["gradient"][name]
    reference = Reference("", expected.values, expected.tensors)
    return compare(TRAIN, observed, reference, make_tolerances(TRAIN)).margin


@pytest.mark.parametrize(
    ("change", "expected_change", "has_gradient", "passes"),
    [
        pytest.param(0.0, UNIT, True, True, id="rounded away"),
        pytest.param(2 * UNIT, UNIT, True, True, id="rounded up"),
        pytest.param(UNIT, 0.0, True, True, id="rounded away in the reference"),
        pytest.param(200 * UNIT, UNIT, True, False, id="too large"),
        pytest.param(200 * UNIT, 0.0, True, False, id="too large, none expected"),
        pytest.param(0.0, UNIT, False, False, id="rounded away without a gradient"),
        pytest.param(UNIT, 0.0, False, False, id="moved without a gradient"),
    ],
)
def test_only_a_weight_with_a_gradient_may_round_away(
    change, expected_change, has_gradient, passes
):
    assert (measure_margin(change, expected_change, has_gradient) < 1) == passes


class BiasedAdapter(ScriptedAdapter):
    """Keeps biased running variances of 16 values per channel, as JAX does."""

    biased_variance = True
    micro_batches = 1

    def normalised(self, config: object, batch: int) -> dict[str, int]:
        return {"bn1.running_var": 16}


def test_biased_variances_are_compared_as_unbiased_ones():
    adapter = BiasedAdapter(parse("resnet50/jax/train/fp32/b4/tiny"))
    adapter.workload = adapter
    samples = np.random.default_rng(0).standard_normal((2, 16, 5))  # passes, values, channels
    start = np.ones(5, np.float32)
    unbiased, biased = start.astype(float), start.astype(float)
    for x in samples:
        unbiased = RETAINED * unbiased + (1 - RETAINED) * x.var(0, ddof=1)
        biased = RETAINED * biased + (1 - RETAINED) * x.var(0)

    ((_, converted),) = unbias_running_variances(
        adapter, [("bn1.running_var", biased)], {"bn1.running_var": start}, passes=2
    )

    assert not np.allclose(biased, unbiased, rtol=1e-3)
    assert np.allclose(converted, unbiased, rtol=1e-12)


@pytest.mark.parametrize(
    ("factor", "retries", "passes"),
    [(1, 0, True), (1 + 2 * ALLOWED, 1, True), (2, 1, False), (math.inf, 0, False)],
    ids=["right", "beyond", "far beyond", "infinite"],
)
def test_tensor_beyond_its_tolerance_is_compared_again(factor, retries, passes, monkeypatch):
    observed = observe_right(TRAIN)
    name, (norm, *projections) = next(iter(observed.tensors["gradient"].items()))
    observed.tensors["gradient"][name] = (norm * factor, *projections)
    found, retries_made = verify_with_wider_tolerances(observed, monkeypatch)
    assert (found.passed, retries_made) == (passes, retries)


def verify_with_wider_tolerances(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> tuple[Verification, int]:
    """Verify steps whose tolerances are four times as wide after more repetitions.

    Return the verification, and how often they were repeated.
    """
    narrow = ObservedSteps([0.0], observed, make_tolerances(TRAIN))
    wide = derive_tolerances(observe_right(TRAIN), [observe_right(TRAIN)], 4 * ALLOWED)
    retries = []

    def observe_more(_: object, first: ObservedSteps) -> ObservedSteps:
        retries.append(first)
        return replace(first, tolerances=wide)

    monkeypatch.setattr(verification, "observe_steps", Mock(return_value=narrow))
    monkeypatch.setattr(verification, "observe_more", observe_more)
    found = verification.make_verified_steps(make_adapter(TRAIN))[1]
    return found, len(retries)


def compare_norms(
    kind: str,
    expected: dict[str, float],
    observed: dict[str, float],
    *,
    perturbed: dict[str, float],
    allowed: float = ALLOWED,
) -> float:
    """Return the margin of tensors of a kind by their norms; a perturbed step gives tolerances."""
    reference = observe_norms(kind, expected)
    tolerances = derive_tolerances(reference, [observe_norms(kind, perturbed)], allowed)
    return compare_tensors(
        TRAIN,
        kind,
        observe_norms(kind, observed).tensors[kind],
        Reference("", {}, reference.tensors),
        tolerances,
    ).margin


@pytest.mark.parametrize(("norm", "passes"), [(1e-8, True), (1e-5, True), (1e-3, False)])
def test_remainder_of_cancelled_terms_is_compared_by_the_usual_size(norm, passes):
    """An example is the running mean behind a convolution of inputs with mean zero, which would be
    zero without rounding errors.
    """
    others = {"a": 1.0, "b": 1.0, "c": 1.0}
    margin = compare_norms(
        "buffer",
        expected={**others, "remainder": 1e-8},
        observed={**others, "remainder": norm},
        perturbed={**others, "remainder": 5e-8},
        allowed=ALLOWED / 10,
    )
    assert (margin <= 1) is passes


def test_small_tensor_that_has_a_size_is_compared_by_its_own():
    expected = {"a": 1.0, "b": 1.0, "small": 1e-4}
    observed = {"a": 1.0, "b": 1.0, "small": 2e-4}
    assert compare_norms("gradient", expected, observed, perturbed=expected) > 1


@pytest.mark.parametrize(
    ("expected_norm", "norm", "passes"),
    [
        (1e-40, 0.0, True),  # the mean square of tiny gradients
        (1e-40, 1e-41, True),
        (1e-40, 1e-30, False),
        (1e-30, 0.0, False),
        (0.0, 1e-40, False),  # a frozen weight's
    ],
)
def test_subnormal_numbers_may_become_zero(expected_norm, norm, passes):
    expected = {"other": 1.0, "small": expected_norm}
    observed = {"other": 1.0, "small": norm}
    margin = compare_norms("second moment", expected, observed, perturbed=expected)
    assert (margin <= 1) is passes


def test_a_tensor_of_rounding_errors_alone_must_only_not_be_zero():
    """With a tolerance above 100 %, projections are not compared, and the norm may not be 0.

    Such a tolerance is derived where rounding errors alone double a tensor's norm.
    """
    right = observe_right(TRAIN)
    name, (norm, *projections) = next(iter(right.tensors["gradient"].items()))

    def observe(*numbers):
        observation = observe_right(TRAIN)
        observation.tensors["gradient"][name] = numbers
        return observation

    zero = observe(0.0, 0.0, 0.0, 0.0)
    reversed_sign = observe(norm, *[-number for number in projections])
    wide = derive_tolerances(right, [observe(2 * norm, *projections)], ALLOWED)

    assert wide.get_for_tensor("gradient", name) > 1
    assert not verify(make_adapter(TRAIN), zero, wide).passed
    assert verify(make_adapter(TRAIN), reversed_sign, wide).passed


@pytest.mark.parametrize(
    ("losses", "unmoved"),
    [
        ([3.0, 2.0, 1.0], 0),
        ([3.0, 2.0, 2.0, 1.0, 1.0], 2),  # every other step does nothing
        ([3.0, 2.0, 1.0, 1.0, 1.0, 1.0], 1),  # none does, from the fourth on
        ([3.0, 3.0, 2.0], 1),  # the first one
        ([3.0, 3.0, 3.0], 2),  # none does
        # a minimum: the last digit alone moves
        ([3.0, 2.0, 1.0, 1.0 - 2**-24, 1.0 - 2**-24, 1.0 - 2**-23, 1.0 - 2**-23], 0),
    ],
)
def test_losses_that_repeat_count_where_their_neighbours_move(losses, unmoved):
    assert verification.count_unmoved(losses) == unmoved
