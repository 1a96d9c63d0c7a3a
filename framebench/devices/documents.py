"""Make the tables of devices in documents: the catalog, predicted strategies, and releases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.devices.catalog import DEVICES, Device, find
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.store import read_every
from framebench.devices.releases import reported
from framebench.devices.releases.table import tabulate_releases
from framebench.devices.tables import answered, errors, frame, strategies, table


def make_device_tables(
    device: Device, predictions: Sequence[Planned], results: Path
) -> list[Table]:
    """Return what is cached for a device: strategies, largest batches, and releases."""
    return [
        *strategies.tabulate_savings(predictions, device),
        *strategies.tabulate_batches(predictions, device),
        *tabulate_releases(predictions, device),
        *reported.make_tables(results, device.name),
    ]


def make_named_tables(name: str, results: Path) -> list[Table]:
    """Return the tables of `report --device`: those of a device, and how much is cached for it.

    Raises UnknownDevice.
    """
    device = find(name)
    predictions = list(read_every(results))
    cached = table.list_cached(planned for planned in predictions if planned.device == device.name)
    return make_device_tables(device, predictions, results) + ([cached] if cached else [])


def make_documents(results: Results) -> list[Table]:
    """Return all tables."""
    tables = [
        table.tabulate_devices(),
        errors.tabulate_errors(),
        errors.tabulate_judged_steps(),
        answered.tabulate_answered(),
        frame.columns(),
    ]
    predictions = list(read_every(results.root))
    for device in DEVICES:
        tables += make_device_tables(device, predictions, results.root)
    return tables
