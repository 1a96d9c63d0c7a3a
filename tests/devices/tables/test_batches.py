"""The largest batch that fits: for certain, in the memory of three cards."""

from __future__ import annotations

import pytest

from framebench.devices.catalog import GIB, find
from framebench.devices.needs import context_of
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.batches import GPUS, tables
from tests.devices.fake_predictions import MIB, allow_error
from tests.devices.tables.test_strategies import simulated

H100 = find("h100-80gb")


@pytest.fixture(autouse=True)
def ten_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let predictions be off by ten percent on either side."""
    allow_error(monkeypatch, 0.1)


def curve(gib_each: float, batches: tuple[int, ...], strategy: str = "fp32") -> list[Planned]:
    return [
        simulated(strategy, int(gib_each * batch * GIB / MIB), batch=batch) for batch in batches
    ]


def test_the_largest_that_fits_in_each_memory() -> None:
    (table,) = tables(curve(2, (8, 16, 32, 64)) + curve(8, (4, 8, 16), "checkpoint"), H100)
    assert [tuple(row) for row in table.data.to_numpy()] == [
        ("torch", "fp32", "8, 16, 32, 64", "8", "16", "32"),
        ("torch", "checkpoint", "4, 8, 16", "below 4", "4", "8"),
    ]


def test_a_certain_batch_includes_error_and_context() -> None:
    memory = find(GPUS["24 GB"]).memory_bytes
    most = (memory - context_of(H100)[1]) / 1.1 - 100 * MIB  # of which 100 MiB are reserved beside
    for size, answer in ((most - MIB, "4"), (most + MIB, "2")):
        three = curve(1, (1, 2)) + [simulated("fp32", int(size / MIB), batch=4)]
        (table,) = tables(three, H100)
        assert table.data.iloc[0].to_list()[3] in (answer, f"{answer} or more")


def test_what_is_refused_does_not_fit_and_few_batches_are_no_row() -> None:
    refused = simulated("fp32", None, batch=32, outcome="refused", reason="needs 90 GiB")
    (table,) = tables([*curve(1, (8, 16)), refused], H100)
    assert table.data.iloc[0].to_list()[3:] == ["16", "16", "16"]
    assert list(tables(curve(1, (8, 16)), H100)) == []
