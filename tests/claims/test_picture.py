"""A claim's arms as bars: each interval has its place on the scale, and the claimed value is
marked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framebench.claims.entries import Line
from framebench.claims.picture import WIDTH, draw


def line(name: str, low: float, high: float, metric: str = "peak", **changes: Any) -> Line:
    made = Line(
        name,
        name,
        name,
        True,
        "smaller than claimed",
        "change",
        metric,
        1.0,
        (low + high) / 2,
        low,
        high,
        claimed=0.5,
    )
    return replace(made, **changes)


def test_ends_of_the_scale_are_the_farthest_of_intervals_no_effect_and_claimed() -> None:
    (picture,) = draw([line("a", 0.6, 0.8), line("b", 0.7, 0.9, planned=True)])
    assert (picture.claimed, picture.null) == (0.0, WIDTH), "from half to no effect"
    assert (picture.least, picture.most, picture.claimed_text) == ("-50.0 %", "+0.0 %", "-50.0 %")
    first, second = picture.bars
    assert (first.left, first.width, first.dot) == pytest.approx(
        (0.2 * WIDTH, 0.4 * WIDTH, 0.4 * WIDTH)
    )
    assert (second.planned, first.planned) == (True, False)
    assert second.left > first.left
    assert picture.height > second.y > first.y > 0


def test_arms_of_another_metric_have_a_picture_of_their_own_and_deciding_ones_come_first() -> None:
    beside, none = (
        line("beside", 1.1, 1.2, "time", decides=False),
        replace(line("none", 0.5, 0.5), low=None),
    )
    found = draw([beside, line("a", 0.6, 0.8), none])
    assert [picture.metric for picture in found] == ["peak", "time"]
    assert [bar.name for picture in found for bar in picture.bars] == ["a", "beside"], (
        "without an interval nothing is drawn"
    )
