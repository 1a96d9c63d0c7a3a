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
from framebench.user_model.measure import list_remarks
from framebench.worker.observe import Observed
from framebench.worker.verification import must_move


def seen(loss: float = 1.0, **gradients: float) -> Observed:
    tensors = summarize_all((name, np.full(8, value)) for name, value in gradients.items())
    return Observed({"loss_0": loss}, {"gradient": tensors, "weight": tensors})


def test_gradients_differ_where_losses_do_not() -> None:
    """While a head is zero, whatever lies before it leaves the loss alone."""
    what, off = checks.find_largest_difference(seen(head=1.01, body=0.0), seen(head=1.0, body=0.0))
    assert (what, off) == ("gradient", pytest.approx(0.01, rel=0.5))
    assert (
        checks.find_largest_difference(seen(head=1.0, body=1e-9), seen(head=1.0, body=2e-9))[1]
        < checks.SAME
    ), "rounding alone"
    assert math.isinf(
        checks.find_largest_difference(seen(head=1.0, body=1.0), seen(head=1.0, body=0.0))[1]
    )


def test_a_repeated_run_that_gives_no_number_differs() -> None:
    name, difference = checks.find_largest_difference(
        seen(loss=math.nan, head=1.0), seen(loss=1.0, head=1.0)
    )
    assert (name, difference) == ("loss", math.inf)


@pytest.mark.parametrize(
    ("shares", "left", "message"),
    [
        ((0.5, 0.5), 0.0, ""),
        ((1.0, 1.0), 0.0, "a sum over the batch, and accumulation divides it"),
        ((0.2, 0.8), 0.0, "tokens are unequal: in the batch's loss its halves count 20% and 80%"),
        ((0.5, 0.5), 0.3, "samples look at each other"),
    ],
)
def test_micro_batches_of_another_loss_are_explained(
    shares: tuple[float, float], left: float, message: str
) -> None:
    found = checks.describe_coupling(np.array(shares), left, is_mean=True)
    assert found.startswith(message) or message in found
    assert bool(found) == bool(message)


@pytest.mark.parametrize(
    ("last", "losses", "must"),
    [
        (1.0, [1.0, 1.1], False),  # the baseline's loss stays
        (1.0 - 2.0**-20, [1.1, 1.2], True),
        (1.0 - 2.0**-23, [1.1, 1.2], False),
        (1.0 - 2.0**-8, [1.0, 1.0078125], False),  # losses in bfloat16, which do not show it
        (1.0 - 2.0**-8, [1.1, 1.1], True),  # in float32 they would
        (0.9, [1.0, 1.0078125], True),
        (1.0 - 2.0**-10, [1.0009765625, 1.0], False),  # in float16
    ],
)
def test_a_loss_must_move_where_its_precision_shows_it(
    last: float, losses: list[float], must: bool
) -> None:
    case = Case("own", "torch", "train", "amp_bf16", 4, "mine")
    reference = Reference("", {"loss_0": 1.0, "loss_1": last}, {})
    assert must_move(case, reference, losses) == must
    assert must_move(replace(case, workload="transformer"), reference, losses)


def test_weights_without_a_gradient_are_counted() -> None:
    params = [("head", [8], True), ("body", [8], True), ("frozen", [8], False)]
    observed = seen(head=1.0)
    observed.tensors["first moment"] = summarize_all([("head", np.ones(8)), ("body", np.ones(8))])
    assert checks.count_without_gradient(params, observed) == {"weights": 2, "first": 1, "ever": []}
    observed.tensors["first moment"].pop("body")
    found = checks.count_without_gradient(params, observed)
    assert found["ever"] == ["body"]
    assert list_remarks({"level": True})[0].startswith(
        "a step moves the loss by less than float32 shows"
    )
    assert list_remarks({"without_gradient": found}) == [
        "1 of 2 weights get no gradient, or one of zeros, such as body"
    ]
