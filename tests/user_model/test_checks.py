"""What is asked of a model before anything is compared with it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.tensors import summarize_all
from framebench.user_file import checks
from framebench.user_file.reference import GROWN, UNDETERMINED, find_moved
from framebench.user_model.mathematics import choose_small_batch
from framebench.user_model.measure import list_remarks
from framebench.worker.observe import Observed
from framebench.worker.verification import must_move


def observe_gradients(loss: float = 1.0, **gradients: float) -> Observed:
    """Return what a step would give with these gradients."""
    tensors = summarize_all((name, np.full(8, value)) for name, value in gradients.items())
    return Observed({"loss_0": loss}, {"gradient": tensors, "weight": tensors})


@pytest.mark.parametrize(
    ("one", "other", "quantity", "difference"),
    [
        # while a head is zero, whatever lies before it leaves the loss alone
        (
            observe_gradients(head=1.01, body=0.0),
            observe_gradients(head=1.0, body=0.0),
            "gradient",
            0.01,
        ),
        (
            observe_gradients(head=1.0, body=1e-9),
            observe_gradients(head=1.0, body=2e-9),
            "gradient",
            1e-9,
        ),
        (
            observe_gradients(head=1.0, body=1.0),
            observe_gradients(head=1.0, body=0.0),
            "gradient",
            math.inf,
        ),
        (observe_gradients(math.nan, head=1.0), observe_gradients(head=1.0), "loss", math.inf),
    ],
)
def test_two_runs_differ_by_the_largest_difference(one, other, quantity, difference):
    found = checks.find_largest_difference(one, other)
    assert found == (quantity, pytest.approx(difference, rel=0.5))


@pytest.mark.parametrize(
    ("last", "losses", "must"),
    [
        (1.0, [1.0, 1.1], False),  # the baseline's loss stays
        (1.0 - 2.0**-20, [1.1, 1.2], True),
        (1.0 - 2.0**-23, [1.1, 1.2], False),
        (1.0 - 2.0**-8, [1.0, 1.0078125], False),  # losses in bfloat16, which do not show it
        (1.0 - 2.0**-8, [1.1, 1.1], True),  # in float32 they would
        (1.0 - 2.0**-10, [1.0009765625, 1.0], False),  # in float16
    ],
)
def test_a_loss_must_move_where_its_precision_shows_it(last, losses, must):
    case = Case.from_id("own/torch/train/amp_bf16/b4/mine")
    reference = Reference("", {"loss_0": 1.0, "loss_1": last}, {})
    assert must_move(case, reference, losses) == must
    assert must_move(replace(case, workload="transformer"), reference, losses)


@pytest.mark.parametrize(
    ("moments", "never", "remark"),
    [
        ({"head": 1.0, "body": 1.0}, [], "1 of 2 weights get no gradient, or one of zeros, in the"),
        ({"head": 1.0}, ["body"], "1 of 2 weights get no gradient, or one of zeros, such as body"),
    ],
)
def test_weights_without_a_gradient_are_counted(moments, never, remark):
    params = [("head", [8], True), ("body", [8], True), ("frozen", [8], False)]
    observed = observe_gradients(head=1.0)
    # decay moves a weight without a gradient, too
    observed.tensors["weight"] = observe_gradients(head=1.0, body=1.0).tensors["weight"]
    observed.tensors["first moment"] = observe_gradients(**moments).tensors["gradient"]
    counts = checks.describe_without_gradient(params, observed)
    assert counts == {"weights": 2, "first": 1, "ever": never}
    (counted,) = list_remarks({"without_gradient": counts})
    assert counted.startswith(remark)


@pytest.mark.parametrize(
    ("strategies", "batch", "small"),
    [
        (["fp32"], 8, 2),  # with one sample nothing shows that samples are mixed up
        (["fp32"], 1, 1),
        (["fp32", "accumulate"], 16, 4),
    ],
)
def test_float64_is_computed_at_the_smallest_part_of_the_batch(strategies, batch, small):
    cases = [Case("transformer", "torch", "train", name, batch) for name in strategies]
    assert choose_small_batch(cases) == small


BIAS = 1e-9  # the gradient of a bias, which may be rounding error alone


@pytest.mark.parametrize(
    ("bias", "limit", "moved"),
    [
        (2 * BIAS, UNDETERMINED, {"bias"}),  # a fine perturbation moves it by its size
        (1.01 * BIAS, UNDETERMINED, set()),
        # Before a norm a bias's true gradient is 0. The rounding error that XLA makes in its place
        # may be the same for all weights nearby, but not for a coarse perturbation.
        (3e4 * BIAS, GROWN, {"bias"}),
    ],
)
def test_a_gradient_that_is_nothing_but_rounding_is_found(bias, limit, moved):
    baseline = observe_gradients(bias=BIAS, weight=1.0)
    assert find_moved(observe_gradients(bias=bias, weight=1.001), baseline, limit) == moved
