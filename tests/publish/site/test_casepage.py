"""Test what the page of a case says of its verification."""

from __future__ import annotations

import pytest

from framebench.publish.site.casepage import make_verification_table
from framebench.suite.result import Verification
from tests.fake_records import record


@pytest.mark.parametrize(
    ("errors", "against", "heading"),
    [
        ({"loss": 1e-8}, None, "float64 reference"),
        ({"loss": 1e-8}, "transformer/torch/train/fp32/b8/full", "float32 reference"),
        ({}, None, "reference"),  # finite, and nothing to compare with
    ],
)
def test_a_reference_in_float32_is_not_called_float64(
    errors: dict[str, float], against: str | None, heading: str
) -> None:
    checked = Verification(
        passed=True, observed={"loss": 1.0}, relative_error=errors, against=against
    )
    table = make_verification_table(record(verification=checked))
    assert table is not None
    assert table.head[2] == heading
