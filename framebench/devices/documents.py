"""The tables of devices in documents: the catalog, and strategies and releases by their predictions."""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.devices.catalog import DEVICES, Device, find
from framebench.devices.fit.fitting import ALLOWED
from framebench.devices.plans.store import every
from framebench.devices.releases import reported
from framebench.devices.releases.table import of_releases
from framebench.devices.tables import batches, frame, strategies, table
from framebench.devices.tables.kept import kept


def of_device(device: Device, results: Path) -> list[Comparison]:
    """What is kept of one: strategies, largest batches, and releases."""
    predictions = list(every(results))
    by_strategy = strategies.tables(predictions, device)
    releases = [*of_releases(predictions, device), *reported.tables(results, device.name)]
    return [*by_strategy, *batches.tables(predictions, device, ALLOWED), *releases]


def of_named(name: str, results: Path) -> list[Comparison]:
    """The same by the device's name, for `report --device`, and of which sources it is. Raises UnknownDevice."""
    device = find(name)
    answers = kept([p for p in every(results) if p.device == device.name])
    return [*of_device(device, results), *([answers] if answers else [])]


def documents(results: Results) -> list[Comparison]:
    of_each = [made for device in DEVICES for made in of_device(device, results.root)]
    return [table.catalog(), frame.columns(), *of_each]
