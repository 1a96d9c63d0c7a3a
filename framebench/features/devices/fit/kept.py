"""Predictions that are kept, for other features: read, never made."""

from __future__ import annotations

from pathlib import Path

from framebench.features.devices.fit.fitting import errors
from framebench.features.devices.plans import planned as store
from framebench.features.devices.plans.planned import Planned
from framebench.records.pins import pinned_version

Kept = tuple[Planned, Path, float]


def kept_plans(results: Path, device: str) -> dict[str, Kept]:
    """By case id the prediction of the pinned release, its file, and the share that it may be off by."""
    allowed = errors(results)
    found = {}
    for framework, error in allowed.items():
        folder = results / "planned" / device / f"{framework}-{pinned_version(framework)}"
        for path in sorted(folder.glob("*.json")):
            if (planned := store.read(path)) is not None:
                found[planned.case] = (planned, path, error)
    return found
