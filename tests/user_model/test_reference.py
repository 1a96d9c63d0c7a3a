"""What of a user's model is rounding and nothing else."""

from __future__ import annotations

import numpy as np

from framebench.suite.tensors import summarize_all
from framebench.user_file.reference import GROWN, UNDETERMINED, find_moved
from framebench.worker.observe import Observed


def observed(bias: float, weight: float) -> Observed:
    gradients = ("tokens.bias", np.array([bias])), ("tokens.weight", np.array([weight]))
    return Observed({}, {"gradient": summarize_all(gradients)})


def test_a_gradient_that_a_fine_perturbation_moves_by_its_size_is_rounding() -> None:
    assert find_moved([observed(2e-9, 1.001)], observed(1e-9, 1.0), UNDETERMINED) == {"tokens.bias"}


def test_a_gradient_that_grows_with_the_perturbation_is_rounding_though_a_fine_one_leaves_it() -> (
    None
):
    """XLA rounds a bias before a norm the same way from any weights, and another program of the
    same step another way.
    """
    baseline = observed(1e-9, 1.0)
    assert find_moved([observed(1.01e-9, 1.001)], baseline, UNDETERMINED) == set()
    assert find_moved([observed(3e-5, 1.3)], baseline, GROWN) == {"tokens.bias"}
