"""Predictions that are kept, for other features: read, never made."""

from __future__ import annotations

from pathlib import Path

from framebench.devices.fit.fitting import ALLOWED
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.records.pins import pinned_version

Kept = tuple[Planned, Path, float]


def kept_plans(results: Path, device: str) -> dict[str, Kept]:
    """By case id the prediction of the pinned release, its file, and the share that it may be off by."""
    found: dict[str, Kept] = {}
    for framework, error in ALLOWED.items():
        path = store.file(results, device, framework, pinned_version(framework))
        found |= {case: (planned, path, error) for case, planned in store.read(path).items()}
    return found
