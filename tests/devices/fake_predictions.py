"""Predictions made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from framebench.devices.needs import INTERVALS, ErrorInterval
from framebench.devices.plans.planned import Origin, Planned
from framebench.devices.plans.version import PLANNER_VERSION

MIB = 2**20
CASE = "transformer/jax/train/fp32/b1/tiny"
PARTS = {"arguments": 5 * MIB, "outputs": 4 * MIB, "temporaries": 7 * MIB, "aliased": 4 * MIB}


def allow_error(patch: pytest.MonkeyPatch, error: float) -> None:
    """Let every kind of prediction be off by so much on either side, while a test runs."""
    for kind in INTERVALS:
        interval = ErrorInterval(low=-error, high=error, median=error, rows=10, families=2)
        patch.setitem(INTERVALS, kind, interval)


def origin(**changes: Any) -> Origin:
    result: dict[str, Any] = {
        "planned_at": datetime(2026, 11, 26, tzinfo=UTC),
        "command": "by hand",
        "commit": None,
        "dirty": None,
        "code": str(PLANNER_VERSION),
        "wall_s": 1.0,
    }
    return Origin(**(result | changes))


def planned(**changes: Any) -> Planned:
    result: dict[str, Any] = {
        "case": CASE,
        "device": "h100-80gb",
        "framework": "jax",
        "framework_version": "0.10.2",
        "source": "compiler.plan",
        "outcome": "planned",
        "peak_bytes": 12 * MIB,
        "parts": PARTS,
        "origin": origin(),
    }
    return Planned(**(result | changes))
