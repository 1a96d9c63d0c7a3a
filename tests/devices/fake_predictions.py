"""Predictions made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from framebench.devices.needs import FEWEST_ROWS, INTERVALS, STEPS, ErrorInterval
from framebench.devices.plans.planned import Planned, PredictionOrigin
from framebench.devices.plans.version import PLANNER_VERSION
from framebench.records.pins import find_pinned_version

MIB = 2**20
CASE = "transformer/jax/train/fp32/b1/tiny"
PARTS = {"arguments": 5 * MIB, "outputs": 4 * MIB, "temporaries": 7 * MIB, "aliased": 4 * MIB}


def allow_error(patch: pytest.MonkeyPatch, error: float) -> None:
    """Let every kind of prediction be off by so much on either side, while a test runs."""
    for kind in INTERVALS:
        patch.setitem(INTERVALS, kind, make_interval(-error, error))


def make_interval(low: float, high: float, rows: int = 10) -> ErrorInterval:
    """Return an interval of so many rows of two families."""
    typical = max(-low, high) if rows >= FEWEST_ROWS else None
    return ErrorInterval(
        low=low,
        high=high,
        median=typical,
        ninth=typical,
        rows=rows,
        families=2,
        sources=1,
        steps=dict.fromkeys(STEPS, rows),
    )


def make_origin(**changes: Any) -> PredictionOrigin:
    result = {
        "planned_at": datetime(2026, 11, 26, tzinfo=UTC),
        "command": "by hand",
        "commit": None,
        "dirty": None,
        "code": str(PLANNER_VERSION),
        "wall_s": 1.0,
    }
    return PredictionOrigin(**(result | changes))


def make_planned(**changes: Any) -> Planned:
    result = {
        "case": CASE,
        "device": "h100-80gb",
        "framework": "jax",
        "framework_version": "0.10.2",
        "source": "compiler.plan",
        "outcome": "planned",
        "peak_bytes": 12 * MIB,
        "parts": PARTS,
        "origin": make_origin(),
    }
    return Planned(**(result | changes))


def make_unplanned(outcome: str, **changes: Any) -> Planned:
    """Return a prediction without a peak."""
    result = {"outcome": outcome, "reason": "why", "peak_bytes": None, "parts": {}}
    return make_planned(**(result | changes))


def make_simulated(strategy: str, mib: float, batch: int = 8) -> Planned:
    """Return what a strategy of PyTorch's pinned release has in use; 100 MiB more are reserved."""
    size = int(mib * MIB)
    return make_planned(
        case=f"transformer/torch/train/{strategy}/b{batch}/full",
        framework="torch",
        framework_version=find_pinned_version("torch"),
        source="allocator.simulated",
        peak_bytes=size + 100 * MIB,
        parts={"allocated": size},
    )


def make_compiled(strategy: str, mib: int, version: str = "") -> Planned:
    """Return the plan of a strategy of JAX's, of the pinned release unless another is named."""
    return make_planned(
        case=f"transformer/jax/train/{strategy}/b8/full",
        framework_version=version or find_pinned_version("jax"),
        peak_bytes=mib * MIB,
        parts={"arguments": mib * MIB, "outputs": 0, "temporaries": 0, "aliased": 0},
    )
