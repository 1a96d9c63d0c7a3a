"""What verification refuses: each test takes the float64 values themselves and changes one
thing.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.result import Verification
from framebench.suite.selectors import parse
from framebench.suite.tensors import measure_errors
from framebench.worker import verification
from framebench.worker.observe import RETAINED, Observed, unbias_running_variances
from framebench.worker.stepping import make_timed_step
from framebench.worker.tolerances import ObservedSteps, Tolerances, derive_tolerances
from framebench.worker.verification import (
    compare,
    compare_tensors,
    compute_state_bytes,
    describe_missing_outputs,
    find_reference,
    verify,
    verify_again,
)

TRAIN = parse("transformer/torch/train/fp32/b4/tiny")
EVAL = parse("transformer/torch/eval/no_grad/b4/tiny")
FROZEN = parse("resnet50/torch/finetune/half/b4/tiny")


def right(case: Case) -> Observed:
    found = copy.deepcopy(find_reference(case))
    assert found
    observed = Observed(found.values, found.tensors)
    if case.stage.trains:
        observed.state_bytes = compute_state_bytes(case, observed)
    return observed


ALLOWED = 1e-3  # of every value and tensor


def tolerances(case: Case) -> Tolerances:
    """Tolerances of a step that no perturbation moves."""
    return derive_tolerances(right(case), [right(case)], ALLOWED)


def verified(case: Case, observed: Observed) -> Verification:
    return verify(adapter(case), observed, tolerances(case))


def adapter(case: Case, **more: Any) -> Any:
    return SimpleNamespace(
        **{"case": case, "workload": case.spec, "find_known_fault": lambda: None} | more
    )


def test_what_the_framework_is_known_to_compute_wrong_is_wrong_whatever_came_out() -> None:
    observed = right(TRAIN)
    assert verify(adapter(TRAIN), observed, tolerances(TRAIN)).passed
    found = verify(
        adapter(TRAIN, find_known_fault=lambda: "a kernel leaves it unwritten"),
        observed,
        tolerances(TRAIN),
    )
    assert (found.passed, found.reason, found.known_fault) == (
        False,
        "a kernel leaves it unwritten",
        True,
    )


@pytest.mark.parametrize("case", [TRAIN, EVAL, FROZEN], ids=str)
def test_what_is_right_passes(case: Case) -> None:
    found = verified(case, right(case))
    assert (found.passed, found.margin, found.reason) == (True, 0, None)
    assert sum(kind.count for kind in found.tensors.values()) == sum(
        map(len, right(case).tensors.values())
    )


def test_every_tensor_counts() -> None:
    """Twice its tolerance in any one of them is wrong, and it is named; half of it is not."""
    for kind, tensors in right(TRAIN).tensors.items():
        for name, (norm, *rest) in tensors.items():
            for times, passes in ((2, False), (0.5, True)):
                observed = right(TRAIN)
                observed.tensors[kind][name] = (norm * (1 + times * ALLOWED), *rest)
                found = verified(TRAIN, observed)
                assert found.passed == passes
                assert found.margin == pytest.approx(times)
                assert found.tensors[kind].worst == name
                assert found.tensors[kind].failed == (not passes)


def test_a_state_that_should_not_exist_and_one_that_is_missing() -> None:
    more, fewer = right(TRAIN), right(TRAIN)
    more.tensors["max_exp_avg_sq"] = more.tensors["second moment"]
    assert "max_exp_avg_sq of" in str(verified(TRAIN, more).reason)
    del fewer.tensors["second moment"]["ln_f.bias"]
    assert verified(TRAIN, fewer).reason == "no second moment of 1 tensors, such as ln_f.bias"


def test_the_bytes_of_the_optimizer() -> None:
    observed = right(TRAIN)
    plain = TRAIN.spec.parameter_count(TRAIN.config)
    assert observed.state_bytes == 2 * 4 * plain
    observed.state_bytes //= 2
    assert "bytes instead of" in str(verified(TRAIN, observed).reason)


def test_a_frozen_weight_that_moved() -> None:
    observed = right(FROZEN)
    still = [name for name, summary in observed.tensors["weight"].items() if summary[0] == 0]
    assert "conv1.weight" in still
    observed.tensors["weight"]["conv1.weight"] = (1e-12, 0.0, 0.0, 0.0)
    found = verify(adapter(FROZEN), observed, tolerances(FROZEN))
    assert not found.passed
    assert found.tensors["weight"].error == math.inf


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_values_that_are_not_finite_are_wrong(number: float) -> None:
    values, tensors = right(TRAIN), right(TRAIN)
    values.values["loss_1"] = number
    tensors.tensors["weight"]["ln_f.bias"] = (number, 0.0, 0.0, 0.0)
    assert not verify(adapter(TRAIN), values, tolerances(TRAIN)).passed
    found = verify(adapter(TRAIN), tensors, tolerances(TRAIN))
    assert not found.passed
    assert found.tensors["weight"].worst == "ln_f.bias"


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """An adapter that, from the first weights again, gives what was observed; `answers`: how its
    timed steps gave theirs.
    """

    def make(observed: Observed, answers: dict[int, int] | None = None) -> Any:
        run = adapter(
            TRAIN,
            loader=None,
            outputs_per_step=Counter(answers or {1: 5}),
            restored=False,
            steps=3 + len(LOSSES),
            restored_at=0,
        )
        run.device, later = lambda: "cpu", iter(LOSSES)
        run.loss = lambda: next(later)
        run.restore = lambda: setattr(run, "restored", True)
        monkeypatch.setattr(
            "framebench.worker.verification.make_first_steps",
            lambda adapter: ([0.1, 0.1], observed),
        )
        monkeypatch.setattr(
            "framebench.worker.verification.describe_late_result", lambda adapter: ""
        )
        for module in ("verification", "laziness_check"):
            monkeypatch.setattr(f"framebench.worker.{module}.make_timed_step", lambda adapter: 0.1)
        return run

    return make


LOSSES = [3.0, 2.0, 1.0]


def test_timed_step_is_verified_again(timed: Callable[..., Any]) -> None:
    run = timed(right(TRAIN))
    assert verify_again(run, LOSSES, tolerances(TRAIN)).passed
    assert run.restored


@pytest.mark.parametrize("kind", ["gradient", "weight", "first moment", "second moment"])
def test_second_verification_compares_every_tensor(kind: str, timed: Callable[..., Any]) -> None:
    """As where the learning rate is halved once all is verified."""
    observed = right(TRAIN)
    observed.tensors[kind] = {
        name: tuple(n / 2 for n in summary) for name, summary in observed.tensors[kind].items()
    }
    found = verify_again(timed(observed), LOSSES, tolerances(TRAIN))
    assert not found.passed
    assert found.tensors[kind].failed == found.tensors[kind].count


def test_second_verification_compares_every_state(timed: Callable[..., Any]) -> None:
    observed = right(TRAIN)
    observed.tensors["max_exp_avg_sq"] = observed.tensors["second moment"]
    assert "max_exp_avg_sq of" in str(
        verify_again(timed(observed), LOSSES, tolerances(TRAIN)).reason
    )


def test_steps_that_do_nothing_are_detected(timed: Callable[..., Any]) -> None:
    every_other = verify_again(timed(right(TRAIN)), [3.0, 2.0, 2.0, 1.0, 1.0], tolerances(TRAIN))
    assert (every_other.passed, every_other.unmoved_steps) == (False, 2)
    silent = verify_again(timed(right(TRAIN), {2: 5, 0: 3}), LOSSES, tolerances(TRAIN))
    assert (silent.passed, silent.reason) == (
        False,
        "3 of 8 steps gave no output as the first one did",
    )


def test_timed_steps_that_set_no_output_are_counted() -> None:
    """However many they are: the first step is the one that was verified."""
    run = SimpleNamespace(outputs=0, outputs_per_step=Counter(), synchronize=lambda: None, steps=0)
    run.step = lambda: setattr(
        run, "outputs", run.outputs + 2 * (run.outputs_per_step.total() == 0)
    )
    make_timed_step(run)  # type: ignore[arg-type]
    assert describe_missing_outputs(run) == ""  # type: ignore[arg-type]
    for _ in range(5):
        make_timed_step(run)  # type: ignore[arg-type]
    assert run.outputs_per_step == {2: 1, 0: 5}
    assert describe_missing_outputs(run) == "5 of 6 steps gave no output as the first one did"  # type: ignore[arg-type]


def test_change_that_float32_rounds_away_is_not_an_error() -> None:
    """Weights of about 1 of which one changes by a unit in its last place: none, or two, is as
    right; a change that such weights can show is not. Without a gradient they must stay.
    """
    name, unit = "blocks.0.ln1.weight", 2.0**-23

    def margin(change: float, expects: float = unit, with_gradient: bool = True) -> float:
        observed, expected = right(TRAIN), find_reference(TRAIN)
        assert expected
        tensors = {kind: dict(of_kind) for kind, of_kind in expected.tensors.items()}
        tensors["weight"][name] = (expects, expects, 0.0, 0.0)
        if not with_gradient:
            del tensors["gradient"][name], observed.tensors["gradient"][name]
        observed.tensors["weight"][name] = (change, change, 0.0, 0.0)
        margin = compare(
            TRAIN, observed, Reference("", expected.values, tensors), tolerances(TRAIN)
        ).margin
        assert margin is not None
        return margin

    for right_change, expects in [(0.0, unit), (2 * unit, unit), (0.0, 0.0), (unit, 0.0)]:
        assert margin(right_change, expects) < 1
    for change, expects in [(200 * unit, unit), (200 * unit, 0.0)]:
        assert margin(change, expects) > 1
    assert margin(0.0, with_gradient=False) > 1
    assert margin(unit, 0.0, with_gradient=False) > 1


def test_biased_variances_are_compared_as_unbiased_ones() -> None:
    """JAX keeps biased running variances of n values per channel, PyTorch unbiased ones."""
    passes, n, channels = 2, 16, 5
    momentum = RETAINED
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((passes, n, channels))
    name = "bn1.running_var"
    start = np.ones(channels, np.float32)
    unbiased, biased = start.astype(float), start.astype(float)
    for x in samples:
        unbiased = momentum * unbiased + (1 - momentum) * x.var(0, ddof=1)
        biased = momentum * biased + (1 - momentum) * x.var(0)
    jax_adapter = adapter(
        parse("resnet50/jax/train/fp32/b4/tiny"),
        biased_variance=True,
        micro_batches=1,
        config=None,
    )
    jax_adapter.workload = SimpleNamespace(normalised=lambda config, batch: {name: n})

    ((_, converted),) = unbias_running_variances(
        jax_adapter, [(name, biased)], {name: start}, passes=passes
    )

    assert not np.allclose(biased, unbiased, rtol=1e-3)
    assert np.allclose(converted, unbiased, rtol=1e-12)


def test_relative_errors_are_of_the_norm_that_is_wanted() -> None:
    assert measure_errors((2.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))[0] == 1


@pytest.mark.parametrize(
    ("off", "asked", "passes"),
    [
        ("nothing", 0, True),
        ("loss_1", 1, True),
        ("weight", 1, True),
        ("far", 1, False),
        ("infinite", 0, False),
    ],
)
def test_what_is_beyond_its_tolerance_is_compared_again_with_more_repetitions(
    off: str, asked: int, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = right(TRAIN)
    factors = {"weight": 1 + 2 * ALLOWED, "far": 2.0, "infinite": math.inf}
    if off == "loss_1":
        observed.values["loss_1"] *= 1 + 2 * ALLOWED
    elif off in factors:
        name, (norm, *projections) = next(iter(observed.tensors["gradient"].items()))
        observed.tensors["gradient"][name] = (norm * factors[off], *projections)
    narrow = ObservedSteps([0.0], observed, tolerances(TRAIN))
    wide = derive_tolerances(right(TRAIN), [right(TRAIN)], 4 * ALLOWED)
    again: list[ObservedSteps] = []

    def observe_more(_: object, first: ObservedSteps) -> ObservedSteps:
        again.append(first)
        return replace(first, tolerances=wide)

    monkeypatch.setattr(verification, "observe_steps", lambda _: narrow)
    monkeypatch.setattr(verification, "observe_more", observe_more)

    found = verification.make_verified_steps(adapter(TRAIN, can_restore=True))[1]

    assert len(again) == asked
    assert found.passed is passes


@pytest.mark.parametrize(("norm", "passes"), [(1e-8, True), (1e-5, True), (1e-3, False)])
def test_what_is_left_where_terms_cancel_is_compared_by_the_usual_size(
    norm: float, passes: bool
) -> None:
    """As the running mean of a convolution whose input has the mean zero: only rounding gives it a
    size.
    """

    def buffers(remainder: float) -> Observed:
        norms = {"a": 1.0, "b": 1.0, "c": 1.0, "remainder": remainder}
        return Observed(
            {}, {"buffer": {name: (size, size, 0.0, 0.0) for name, size in norms.items()}}
        )

    reference = Reference("", {}, buffers(1e-8).tensors)
    measured = derive_tolerances(buffers(1e-8), [buffers(5e-8)], ALLOWED / 10)
    found = compare_tensors(TRAIN, "buffer", buffers(norm).tensors["buffer"], reference, measured)
    assert (found.margin <= 1) is passes


def test_a_small_tensor_that_has_a_size_is_compared_by_its_own() -> None:
    def gradients(small: float) -> Observed:
        norms = {"a": 1.0, "b": 1.0, "small": small}
        return Observed(
            {}, {"gradient": {name: (size, size, 0.0, 0.0) for name, size in norms.items()}}
        )

    reference = Reference("", {}, gradients(1e-4).tensors)
    measured = derive_tolerances(gradients(1e-4), [gradients(1.01e-4)], ALLOWED)
    found = compare_tensors(
        TRAIN, "gradient", gradients(2e-4).tensors["gradient"], reference, measured
    )
    assert found.margin > 1


def test_a_tensor_of_zeros_is_wrong_however_wide_its_tolerance_is() -> None:
    """Rounding has cost the tensor its digits: only its size is compared, and a gradient that is
    lost has none.
    """
    name = next(iter(right(TRAIN).tensors["gradient"]))
    moved, lost, turned = right(TRAIN), right(TRAIN), right(TRAIN)
    norm, *projections = moved.tensors["gradient"][name]
    moved.tensors["gradient"][name] = (2 * norm, *projections)
    lost.tensors["gradient"][name] = (0.0, 0.0, 0.0, 0.0)
    turned.tensors["gradient"][name] = (norm, *(-each for each in projections))
    wide = derive_tolerances(right(TRAIN), [moved], ALLOWED)

    assert wide.of_tensor("gradient", name) > 1
    assert not verify(adapter(TRAIN), lost, wide).passed
    assert verify(adapter(TRAIN), turned, wide).passed


@pytest.mark.parametrize(
    ("losses", "unmoved"),
    [
        ([3.0, 2.0, 1.0], 0),
        ([3.0, 2.0, 2.0, 1.0, 1.0], 2),  # every other step does nothing
        ([3.0, 2.0, 1.0, 1.0, 1.0, 1.0], 1),  # none does, from the fourth on
        ([3.0, 3.0, 3.0], 2),  # none does
        # a minimum: the last digit alone moves
        ([3.0, 2.0, 1.0, 1.0 - 2**-24, 1.0 - 2**-24, 1.0 - 2**-23, 1.0 - 2**-23], 0),
    ],
)
def test_losses_that_repeat_count_where_their_neighbours_move(
    losses: list[float], unmoved: int
) -> None:
    assert verification.count_unmoved(losses) == unmoved


def test_a_loss_that_should_be_zero_may_be_zero() -> None:
    """A hinge loss that is met."""
    assert verification.compute_relative_error(0.0, 0.0) == 0.0
    assert verification.compute_relative_error(1e-3, 0.0) == 1e-3
    assert verification.compute_relative_error(1.0, 2.0) == 0.5
