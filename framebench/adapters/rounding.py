"""Measure whether matmuls and convolutions round their operands, on numbers with a known result.

float32 has 24 bits for a number, TensorFloat-32 and float16 have 11, bfloat16 has 8. `NUMBER` needs
13: with fewer bits it is rounded to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from framebench.adapters.proof import Evidence, above, below, check, expect

NUMBER = 1 + 2.0**-12
# A relative error above this shows rounded operands: these make an error of 2**-11, and sums in
# float32 one of about 2**-20.
LIMIT = 2.0**-13
Shape = tuple[int, ...]
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]


def measure_errors(matmul: Multiply, convolution: Multiply) -> Evidence:
    """Return the largest relative error of a matmul and of a convolution without padding.

    The convolution is a large one, since cuDNN multiplies a smaller one in float32 even where it
    may round, as it did on an H200.
    """
    images = (8, 64, 32, 32)  # batch, channels, height, width
    kernels = (64, 64, 3, 3)  # channels out and in, height, width
    return {
        "error_of_a_product": measure_error(matmul, (128, 128), (128, 128), terms=128),
        "error_of_a_convolution": measure_error(convolution, images, kernels, terms=64 * 9),
    }


def measure_error(multiply: Multiply, left: Shape, right: Shape, terms: int) -> float:
    """Return the largest relative error of a product in which each result is a sum of `terms`."""
    result = multiply(np.full(left, NUMBER, np.float32), np.full(right, NUMBER, np.float32))
    exact = terms * NUMBER**2
    return float(np.abs(result.astype(np.float64) / exact - 1).max())


def is_any_rounded(evidence: Evidence) -> bool:
    """Return whether matmuls, convolutions, or both are rounded."""
    errors = evidence["error_of_a_product"], evidence["error_of_a_convolution"]
    return bool(max(errors) >= LIMIT)


# of matmuls and convolutions neither, both, or at least one are rounded
EXACT = expect(error_of_a_product=below(LIMIT), error_of_a_convolution=below(LIMIT))
ROUNDED = expect(error_of_a_product=above(LIMIT), error_of_a_convolution=above(LIMIT))
SOME_ROUNDED = check(is_any_rounded, "products or convolutions are rounded")
