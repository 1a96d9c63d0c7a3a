"""Measure whether products are rounded: the errors of a matmul and of a convolution whose results are known.

float32 has 24 bits for a number, TensorFloat-32 and float16 have 11, bfloat16 has 8. 1 + 2**-12 needs 13: with fewer it is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from framebench.adapters.proof import Evidence, above, below, check, expect

NUMBER = 1 + 2.0**-12
LIMIT = 2.0**-13  # of a relative error: rounding both operands makes 2**-11, float32's sums about 2**-20
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]


def measure_errors(product: Multiply, convolution: Multiply) -> Evidence:
    """Return the largest relative error of each.

    The matrices are 128 x 128; the convolution without padding is one of
    (batch, channel, height, width) = (8, 64, 32, 32) with (out, in, height, width) = (64, 64, 3, 3): of a smaller one cuDNN
    multiplies in float32 where it may round, as it did on an H200.
    """

    def error(multiply: Multiply, terms: int, *shapes: tuple[int, ...]) -> float:
        operands = [np.full(shape, NUMBER, np.float32) for shape in shapes]
        exact = terms * NUMBER**2
        return float(np.abs(multiply(*operands).astype(np.float64) / exact - 1).max())

    return {
        "error_of_a_product": error(product, 128, (128, 128), (128, 128)),
        "error_of_a_convolution": error(convolution, 64 * 9, (8, 64, 32, 32), (64, 64, 3, 3)),
    }


EXACT = expect(error_of_a_product=below(LIMIT), error_of_a_convolution=below(LIMIT))  # neither was rounded
ROUNDED = expect(error_of_a_product=above(LIMIT), error_of_a_convolution=above(LIMIT))  # both were


def some_are_rounded(e: Evidence) -> bool:
    """Return whether products or convolutions are rounded."""
    return bool(max(e["error_of_a_product"], e["error_of_a_convolution"]) >= LIMIT)


SOME_ROUNDED = check(some_are_rounded, "products or convolutions are rounded")
