"""The tables of devices in documents: the catalog, and strategies and releases by their
predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.devices.catalog import DEVICES, Device, find
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.store import every
from framebench.devices.releases import reported
from framebench.devices.releases.table import of_releases
from framebench.devices.tables import frame, strategies, table


def of_device(device: Device, predictions: Sequence[Planned], results: Path) -> list[Table]:
    """Return what is cached for a device: strategies, largest batches, and releases."""
    return [
        *strategies.tabulate_savings(predictions, device),
        *strategies.tabulate_batches(predictions, device),
        *of_releases(predictions, device),
        *reported.tables(results, device.name),
    ]


def of_named(name: str, results: Path) -> list[Table]:
    """Return the same by the device's name, and how much is cached, for `report --device`.

    Raises UnknownDevice.
    """
    device = find(name)
    predictions = list(every(results))
    cached = table.count_cached(planned for planned in predictions if planned.device == device.name)
    return of_device(device, predictions, results) + ([cached] if cached else [])


def documents(results: Results) -> list[Table]:
    """Return all tables."""
    tables = [table.tabulate_devices(), table.tabulate_errors(), frame.columns()]
    predictions = list(every(results.root))
    for device in DEVICES:
        tables += of_device(device, predictions, results.root)
    return tables
