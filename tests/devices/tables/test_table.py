"""Tables of predictions: what fits, what does not, and releases side by side."""

from __future__ import annotations

from framebench.devices.catalog import find
from framebench.devices.tables import table
from tests.devices.fake_predictions import MIB, PARTS, planned

H100 = find("h100-80gb")


def larger(count: int) -> dict[str, object]:
    return {"peak_bytes": (12 + count) * MIB, "parts": PARTS | {"temporaries": (7 + count) * MIB}}


def test_a_peak_above_the_memory_does_not_fit() -> None:
    small, huge = planned(), planned(**larger(100 * 1024))
    assert table.describe_share(small, H100) == "1.7%", "the context alone"
    assert table.describe_share(huge, H100).endswith("does not fit")
    refused = planned(
        outcome="refused", reason="x", peak_bytes=None, parts={}, needs_bytes=90 * 2**30
    )
    assert table.describe_share(refused, H100) == "does not fit: would take 92,160.0 MiB"
    assert (
        table.describe_share(planned(outcome="failed", reason="x", peak_bytes=None, parts={}), H100)
        == "-"
    )
