"""Test what the page of a case says of its verification."""

from __future__ import annotations

import pytest

from framebench.publish.site.casepage import verification
from framebench.suite.result import Mathematics, Verification
from tests.handmade import record


@pytest.mark.parametrize(
    ("errors", "against", "heading"),
    [
        ({"loss": 1e-8}, None, "float64 reference"),
        ({"loss": 1e-8}, "transformer/torch/train/fp32/b8/full", "float32 reference"),
        ({}, None, "reference"),  # finite, and nothing to compare with
    ],
)
def test_a_reference_in_float32_is_not_called_float64(errors: dict[str, float], against: str | None, heading: str) -> None:
    checked = Verification(passed=True, observed={"loss": 1.0}, relative_error=errors, against=against)
    table = verification(record(verification=checked))
    assert table is not None
    assert table.head[2] == heading


TINY = "transformer/torch/train/fp32/b4/tiny"
RIGHT = Mathematics(case=TINY, computed=True, passed=True, tensors=115, worst="weight of head", error=4e-12, tolerance=1e-9)
WRONG = Mathematics(
    case=TINY, computed=True, passed=False, reason="weight of head is off", tensors=115, worst="weight of head", error=3e-5,
    tolerance=1e-9,
)  # fmt: skip
NOT_COMPUTED = Mathematics(case=TINY, computed=False, passed=True, reason="int8 multiplies whole numbers of 8 bits")


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (RIGHT, f"Mathematics in float64: 115 values and tensors agree to 4e-12 ({TINY})."),
        (WRONG, f"Mathematics in float64: wrong, weight of head is off ({TINY})."),
        (NOT_COMPUTED, "Mathematics in float64: not computed, since int8 multiplies whole numbers of 8 bits."),
    ],
)
def test_the_page_says_what_float64_has_shown(outcome: Mathematics, sentence: str) -> None:
    checked = Verification(passed=outcome.passed, observed={"loss": 1.0}, mathematics=outcome)
    table = verification(record(verification=checked))
    assert table is not None
    assert table.caption.endswith(sentence)


def test_wrong_mathematics_is_shown_without_a_measured_process() -> None:
    table = verification(record(status="wrong", verification=Verification(passed=False, mathematics=WRONG)))
    assert table is not None
    assert table.rows == (("in float64: weight of head, the worst of 115", "", "", "3.0e-05", "1e-09"),)
