"""Tables of predictions: what fits, what does not, and how many are cached."""

from __future__ import annotations

import pytest

from framebench.devices.catalog import find
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.table import describe_share, list_cached
from tests.devices.fake_predictions import CASE, MIB, make_origin, make_planned, make_unplanned


@pytest.mark.parametrize(
    ("prediction", "share"),
    [
        (make_planned(), "1.7%"),  # the context alone
        (make_planned(peak_bytes=100 * 2**30), "138.7%: does not fit"),
        (
            make_unplanned("refused", needs_bytes=92_160 * MIB),
            "does not fit: would take 92,160.0 MiB",
        ),
        (make_unplanned("failed"), "-"),
    ],
)
def test_a_peak_above_the_memory_does_not_fit(prediction: Planned, share: str) -> None:
    assert describe_share(prediction, find("h100-80gb")) == share


def test_predictions_of_an_older_version_are_counted() -> None:
    older = make_planned(case=CASE.replace("fp32", "checkpoint"), origin=make_origin(code="0"))
    gone = make_planned(case="transformer/jax/train/once_there/b1/tiny")
    table = list_cached([make_planned(), older, gone, make_planned(device="a100-40gb")])
    assert table
    assert table.rows == (
        ("h100-80gb", "jax 0.10.2", "3", "2"),
        ("a100-40gb", "jax 0.10.2", "1", "0"),
    )
    assert "2 of 4 were made by an older version" in table.caption
    assert list_cached([]) is None
