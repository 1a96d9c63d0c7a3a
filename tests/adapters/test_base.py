"""What all adapters share, without a framework."""

from __future__ import annotations

import numpy as np
import pytest

from framebench.adapters.base import Adapter, join_output
from framebench.models.spec import Workload
from framebench.suite.case import Case
from tests.callbacks import ignore

FLOATS = np.array([[1.5, 2.5], [3.5, 4.5]], np.float32)
INTEGERS = np.array([[1, 2], [3, 4]])
CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")


def test_a_row_whose_function_is_missing_says_where_to_add_it(monkeypatch):
    monkeypatch.setattr(Workload, "import_model", ignore)

    class Bare(Adapter):
        """With no method of its own."""

    Bare.__abstractmethods__ = frozenset()
    with pytest.raises(LookupError, match=r"'fp32', and no function in framebench/adapters/torch"):
        Bare(CASE, {}).build()


# a model's output by the numbers that are compared: those with a row for each of two samples
OUTPUTS = {
    "one array": (FLOATS, FLOATS),
    "integers alone": (INTEGERS, INTEGERS),
    "several arrays": ((FLOATS, FLOATS[:, :1]), [[1.5, 2.5, 1.5], [3.5, 4.5, 3.5]]),
    "floating point before integers": ({"a": INTEGERS, "b": FLOATS}, FLOATS),
    "integers in a tuple": ((INTEGERS, INTEGERS > 1), [[1, 2, 0, 1], [3, 4, 1, 1]]),
    "a scalar next to rows": ((np.float64(7), FLOATS), FLOATS),
    "scalars alone": ({"loss": np.float64(7), "other": np.int64(2)}, [[7, 2]]),
    "complex numbers in a tuple": ((FLOATS[:, 0] + 2j,), [[1.5, 2], [3.5, 2]]),
    "complex numbers next to real ones": (
        (FLOATS, FLOATS[:, 0] + 2j, INTEGERS),
        [[1.5, 2.5, 1.5, 2], [3.5, 4.5, 3.5, 2]],
    ),
    "an array of fewer rows": ((FLOATS, FLOATS[:1]), FLOATS),
    "no samples": ((FLOATS[:0], FLOATS[:0]), np.empty((0, 0))),
}


def is_inexact(array: np.ndarray) -> bool:
    return bool(np.issubdtype(array.dtype, np.inexact))


@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_output_of_a_model_can_be_compared(kind):
    output, expected = OUTPUTS[kind]
    joined = join_output(output, is_inexact, np.asarray)
    assert joined.dtype == np.float64
    assert np.array_equal(joined, expected)


def test_an_output_without_an_array_is_named():
    with pytest.raises(TypeError, match="the output, str, has no array"):
        join_output("text", is_inexact, np.asarray)
