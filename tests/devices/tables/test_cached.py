"""Predictions of an older version of the planners are counted, and what renews them is said."""

from __future__ import annotations

import pytest

from framebench.devices.tables.table import count_cached
from tests.devices.fake_predictions import CASE, origin, planned

OTHER = CASE.replace("fp32", "checkpoint")
OLDER = origin(code="0")


def test_predictions_of_an_older_version_are_counted() -> None:
    table = count_cached(
        [planned(), planned(case=OTHER, origin=OLDER), planned(device="a100-40gb")]
    )
    assert table
    assert table.rows == (
        ("h100-80gb", "jax 0.10.2", "2", "1"),
        ("a100-40gb", "jax 0.10.2", "1", "0"),
    )
    assert "1 of 3 were made by an older version" in table.caption
    assert "framebench predict CASES --device NAME" in table.caption
    assert count_cached([]) is None


@pytest.mark.parametrize(
    "case", ["transformer/jax/train/once_there/b1/tiny", "once/jax/train/fp32/b1/tiny"]
)
def test_a_prediction_of_a_case_that_is_gone_counts_as_older(case: str) -> None:
    table = count_cached([planned(case=case)])
    assert table
    assert table.rows[0][-1] == "1"
