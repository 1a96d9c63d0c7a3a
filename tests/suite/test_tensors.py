"""Summaries of tensors: what they see of an error."""

import numpy as np
import pytest

from framebench.suite.tensors import measure_errors, summarize, summarize_logits

RNG = np.random.default_rng(0)
PLAIN = RNG.standard_normal((300, 40)).astype(np.float32)


@pytest.mark.parametrize(
    "wrong",
    [
        -PLAIN,
        PLAIN[::-1],
        PLAIN * 1.01,
        np.zeros_like(PLAIN),
    ],
    ids=["sign", "order", "scaled", "nothing"],
)
def test_summaries_see_wrong_tensors(wrong):
    assert max(measure_errors(summarize("w", wrong), summarize("w", PLAIN))) > 0.005


@pytest.mark.parametrize("size", [1e-6, 0.1])
def test_projections_keep_the_size_of_an_error(size):
    noise = RNG.standard_normal(PLAIN.shape)
    noise *= np.linalg.norm(PLAIN) / np.linalg.norm(noise)
    off = PLAIN + size * noise
    _, projections = measure_errors(summarize("w", off), summarize("w", PLAIN))
    assert size / 5 < projections < 3 * size


def test_random_vectors_have_variance_one_and_belong_to_the_name():
    projections = []
    for name in range(200):
        _, *numbers = summarize(f"w{name}", PLAIN)
        projections.append(numbers)
    relative = np.array(projections) / np.linalg.norm(PLAIN)
    assert np.sqrt((relative**2).mean()) == pytest.approx(1, abs=0.1)
    # of the same name the vectors are the same, in float64 too
    assert summarize("w", PLAIN) == summarize("w", PLAIN.astype(np.float64))


def test_any_error_of_a_zero_tensor_is_infinite():
    zero = summarize("w", np.zeros(3))
    assert measure_errors(zero, zero) == (0, 0)
    assert measure_errors(summarize("w", np.array([0, 1e-30, 0])), zero) == (np.inf, np.inf)


def test_errors_are_visible_despite_a_large_common_mean():
    logits = 1000 + RNG.standard_normal((8, 5))
    expected = summarize_logits(logits)
    observed = summarize_logits(logits + 1e-3 * RNG.standard_normal((8, 5)))
    raw, centred = expected
    raw_error = max(measure_errors(observed[raw], expected[raw]))
    centred_error = max(measure_errors(observed[centred], expected[centred]))
    assert centred_error > 100 * raw_error
