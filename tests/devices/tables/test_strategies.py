"""Tables of what strategies are predicted to save."""

from __future__ import annotations

from framebench.devices.catalog import find
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.strategies import tables
from framebench.records.pins import find_pinned_version
from tests.devices.fake_predictions import MIB, planned

H100 = find("h100-80gb")


def simulated(strategy: str, size: int | None, batch: int = 8, **fields: object) -> Planned:
    parts = {} if size is None else {"allocated": size * MIB}
    reserved = size and (size + 100) * MIB
    result = {
        "outcome": "planned",
        "peak_bytes": reserved,
        "parts": parts,
        "source": "allocator.simulated",
    } | fields
    case = f"transformer/torch/train/{strategy}/b{batch}/full"
    return planned(
        case=case, framework="torch", framework_version=find_pinned_version("torch"), **result
    )


def plan(strategy: str, size: int, version: str = "") -> Planned:
    parts = {"arguments": size * MIB, "outputs": 0, "temporaries": 0, "aliased": 0}
    case = f"transformer/jax/train/{strategy}/b8/full"
    return planned(
        case=case,
        framework_version=version or find_pinned_version("jax"),
        peak_bytes=size * MIB,
        parts=parts,
    )


def test_each_framework_has_a_column_of_its_own_and_a_ratio_to_its_own_baseline() -> None:
    every = [
        simulated("fp32", 1000),
        simulated("checkpoint", 500),
        plan("fp32", 2000),
        plan("checkpoint", 500),
        simulated("compile", None, outcome="not planned", reason="a compiler decides"),
        simulated("fp32", 7, batch=4),
        plan("checkpoint", 1, version="0.0.1"),
        simulated("accumulate", 400),
        planned(
            case="transformer/jax/train/compile/b8/full",
            framework_version=find_pinned_version("jax"),
            peak_bytes=None,
            outcome="not planned",
            reason="always so",
            source=None,
            parts={},
        ),
    ]
    (table,) = tables(every, H100)
    rows = [tuple(row) for row in table.data.to_numpy()]
    assert rows == [
        ("fp32", "1,000.0", "1.00", "1,100.0", "2,000.0", "1.00"),
        ("checkpoint", "500.0", "0.50", "600.0", "500.0", "0.25"),
        ("accumulate", "400.0", "0.40", "500.0", "-", "-"),
    ], "no row without a number"
    assert table.notes == ("not predicted: torch compile: a compiler decides",), (
        "JAX has no such strategy: docs/strategies.md"
    )
    assert "batch 8, size full, on one NVIDIA H100" in table.title


def test_a_plan_beyond_the_devices_memory_does_not_fit() -> None:
    """XLA plans it all the same; a simulation refuses it."""
    needs = {"outcome": "refused", "reason": "does not fit", "needs_bytes": 90_000 * MIB}
    (table,) = tables(
        [
            plan("fp32", 50_000),
            plan("long", 100_000),
            simulated("long", None, **needs),
            plan("scan", 1),
        ],
        H100,
    )
    (row,) = [row for row in table.rows if row[0] == "long"]
    assert row[1::3] == (
        "does not fit: would take 90,000.0 MiB",
        "does not fit: would take 100,000.0 MiB",
    )
    assert row[-1] == "2.00"
