"""Tables of what strategies are predicted to save, and of the largest batches that fit."""

from __future__ import annotations

from framebench.devices.catalog import find
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.strategies import GPUS, tabulate_batches, tabulate_savings
from framebench.records.pins import find_pinned_version
from tests.devices.fake_predictions import (
    MIB,
    allow_error,
    make_compiled,
    make_simulated,
    make_unplanned,
)

H100 = find("h100-80gb")
RELEASES = {name: find_pinned_version(name) for name in ("torch", "jax")}


def predict_none(framework: str, strategy: str, outcome: str, **fields: object) -> Planned:
    return make_unplanned(
        outcome,
        case=f"transformer/{framework}/train/{strategy}/b8/full",
        framework=framework,
        framework_version=RELEASES[framework],
        **fields,
    )


def predict_batches(batches: tuple[int, ...], strategy: str, *, gib_each: float) -> list[Planned]:
    """Return the plan of each batch, which takes so many GiB a sample."""
    return [make_simulated(strategy, 1024 * gib_each * batch, batch) for batch in batches]


def test_each_framework_is_compared_with_its_own_baseline():
    every = [
        make_simulated("fp32", 1000),
        make_simulated("checkpoint", 500),
        make_simulated("accumulate", 400),
        make_compiled("fp32", 2000),
        make_compiled("checkpoint", 500),
        predict_none("torch", "compile", "not planned", reason="a compiler decides"),
        # of another batch, of another release, and of what JAX has no such strategy for
        make_simulated("fp32", 7, batch=4),
        make_compiled("checkpoint", 1, version="0.0.1"),
        predict_none("jax", "compile", "not planned"),
    ]
    (table,) = tabulate_savings(every, H100)
    assert table.rows == (
        ("fp32", "1,000.0", "1.00", "1,100.0", "2,000.0", "1.00"),
        ("checkpoint", "500.0", "0.50", "600.0", "500.0", "0.25"),
        ("accumulate", "400.0", "0.40", "500.0", "-", "-"),
    )
    assert table.notes == ("not predicted: torch compile: a compiler decides",)
    assert "batch 8, size full, on one NVIDIA H100" in table.title


def test_a_plan_beyond_the_devices_memory_does_not_fit():
    """XLA plans it all the same; a simulation refuses it."""
    refused = predict_none("torch", "long", "refused", needs_bytes=90_000 * MIB)
    plans = [
        make_compiled("fp32", 50_000),
        make_compiled("long", 100_000),
        make_compiled("scan", 1),
    ]
    (table,) = tabulate_savings([*plans, refused], H100)
    (row,) = [row for row in table.rows if row[0] == "long"]
    cells = dict(zip(table.head, row, strict=True))
    assert cells["PyTorch allocated"] == "does not fit: would take 90,000.0 MiB"
    assert cells["JAX planned"] == "does not fit: would take 100,000.0 MiB"
    assert cells["x fp32"] == "2.00"


def test_the_largest_batch_that_fits_in_each_memory(monkeypatch):
    allow_error(monkeypatch, 0.1)
    predictions = predict_batches((8, 16, 32, 64), "fp32", gib_each=2)
    predictions += predict_batches((4, 8, 16), "checkpoint", gib_each=8)
    predictions += predict_batches((8, 16), "accumulate", gib_each=1)  # too few for a row
    (table,) = tabulate_batches(predictions, H100)
    # framework, strategy, predicted batches, then the largest that fits each of GPUS
    assert table.rows == (
        ("torch", "fp32", "8, 16, 32, 64", "8", "16", "32"),
        ("torch", "checkpoint", "4, 8, 16", "below 4", "4", "8"),
    )


def test_a_certain_batch_includes_error_and_context(monkeypatch):
    allow_error(monkeypatch, 0.1)
    memory = find(GPUS["24 GB"]).memory_bytes
    # of which `simulated` reserves 100 MiB next to what is in use
    most = (memory - find_context_bytes(H100)[1]) / 1.1 / MIB - 100
    small = predict_batches((1, 2), "fp32", gib_each=1)
    for mib, answer in ((most - 1, "4 or more"), (most + 1, "2")):
        (table,) = tabulate_batches([*small, make_simulated("fp32", mib, batch=4)], H100)
        assert table.rows[0][3] == answer
