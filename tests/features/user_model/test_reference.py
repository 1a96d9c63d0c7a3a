"""What of a user's model is rounding and nothing else, and by how much it may therefore be off."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.base import State
from framebench.features.user_model.reference import GROWN, UNDETERMINED, _lost, once_rounded, undirected
from framebench.suite.tensors import summaries
from framebench.worker.observe import Observed

ROUNDOFF = 2.0**-8


def adapter(*states: State, trains: bool = True) -> Any:
    return SimpleNamespace(states=lambda: iter(states), case=SimpleNamespace(stage=SimpleNamespace(trains=trains)))


def moment(kind: str, *numbers: float) -> State:
    array = np.array(numbers, np.float32)
    return State(kind, "qkv.bias", array, array.nbytes)


def test_a_weight_may_stray_by_the_share_of_it_whose_gradient_is_rounding() -> None:
    """Of four numbers that the optimizer moves by the same rate, one goes anywhere: of the change's square a quarter."""
    one_of_four = moment("first moment", 1.0, -1.0, 1.0, 1e-6)
    found = undirected(adapter(one_of_four, moment("second moment", 1, 1, 1, 1e-12)), ROUNDOFF)
    assert found == {"weight": {"qkv.bias": (pytest.approx(math.sqrt(1 / 3)),) * 2}}


def test_no_weight_may_stray_whose_gradient_says_where_to() -> None:
    steady = moment("first moment", 1.0, -1.0, 0.5, 0.02)
    assert undirected(adapter(steady, moment("second moment", 1, 1, 1, 1)), ROUNDOFF)["weight"]["qkv.bias"] == (0.0, 0.0)


def test_what_is_all_rounding_may_stray_by_its_whole_change_and_no_further() -> None:
    nothing = moment("first moment", 0.0, 0.0, 0.0)
    assert undirected(adapter(nothing, moment("second moment", 0, 0, 0)), ROUNDOFF)["weight"]["qkv.bias"] == (1.0, 1.0)


@pytest.mark.parametrize(
    "without", [adapter(moment("momentum", 1.0, 1e-6)), adapter(trains=False)], ids=["SGD with momentum", "evaluation"]
)
def test_without_a_second_moment_a_gradient_that_is_rounding_moves_nothing(without: Any) -> None:
    assert undirected(without, ROUNDOFF) == {}


def test_the_loss_of_few_samples_that_all_round_the_same_way_is_off_by_a_whole_rounding() -> None:
    found = once_rounded(Observed({"loss_0": 2.6, "loss_1": 1.3, "grad_norm": 0.5}), ROUNDOFF)
    assert found == {"value": {"loss_0": (ROUNDOFF, 0.0), "loss_1": (ROUNDOFF, 0.0)}}
    logits = np.array([2.6, 1.3, 0.7, 2.2])
    down = logits * (1 - ROUNDOFF)
    assert abs(down.mean() / logits.mean() - 1) == pytest.approx(ROUNDOFF)


def test_a_gradient_that_grows_with_the_roundoff_is_rounding_though_each_run_in_float32_gives_the_same() -> None:
    """XLA rounds a bias before a norm the same way from any weights, and another program of the same step another way."""

    def seen(bias: float, weight: float) -> Observed:
        gradients = ("tokens.bias", np.array([bias])), ("tokens.weight", np.array([weight]))
        return Observed({}, {"gradient": summaries(gradients)})

    baseline = seen(1e-9, 1.0)
    assert _lost([seen(1.01e-9, 1.001)], baseline, UNDETERMINED) == set()
    assert _lost([seen(3e-5, 1.3)], baseline, GROWN) == {"tokens.bias"}
