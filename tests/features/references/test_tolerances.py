"""The sentence about the smallest error that is certain to be seen."""

from __future__ import annotations

from framebench.features.references.tolerances import certain


def test_the_smallest_error_that_is_certain_to_be_seen_is_said_of_each_precision() -> None:
    said = certain().partition(": ")[2]
    assert [one.partition(" in ")[2] for one in said.rstrip(".").split("; ")] == [
        "fp32",
        "bf16 moment",
        "8-bit moments",
        "bf16",
    ]
