"""Numbers of things in words."""

from __future__ import annotations

from framebench.suite.counting import format_count


def test_one_thing_is_named_in_the_singular():
    assert format_count(0, "case") == "0 cases"
    assert format_count(1, "case") == "1 case"
    assert format_count(2345, "case") == "2,345 cases"
    assert format_count(1, "other fits", "others fit") == "1 other fits"
    assert format_count(3, "other fits", "others fit") == "3 others fit"
