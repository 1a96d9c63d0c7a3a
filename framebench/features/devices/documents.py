"""The tables of devices in documents: the catalog, strategies and releases by their predictions, and the judge's."""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.features.devices.catalog import DEVICES, Device, find
from framebench.features.devices.fit.fitting import errors
from framebench.features.devices.judge import at_home, replay, workspaces
from framebench.features.devices.judge.table import of_folder
from framebench.features.devices.plans.store import EARLIER, every
from framebench.features.devices.releases import reported
from framebench.features.devices.releases.table import of_releases
from framebench.features.devices.tables import batches, frame, strategies, table
from framebench.features.devices.tables.kept import kept


def of_device(device: Device, results: Path) -> list[Comparison]:
    """What is kept of one: strategies, largest batches, and releases."""
    predictions = list(every(results))
    by_strategy = strategies.tables(predictions, device)
    releases = [*of_releases(predictions, device), *reported.tables(results, device.name)]
    return [*by_strategy, *batches.tables(predictions, device, errors(results)), *releases]


def of_named(name: str, results: Path) -> list[Comparison]:
    """The same by the device's name, for `report --device`, and of which sources it is. Raises UnknownDevice."""
    device = find(name)
    answers = kept([p for p in every(results) if p.device == device.name])
    return [*of_device(device, results), *([answers] if answers else [])]


def documents(results: Results) -> list[Comparison]:
    of_each = [made for device in DEVICES for made in of_device(device, results.root)]
    first, now = list(every(results.root, EARLIER)), list(every(results.root))
    made_of = (at_home.table, at_home.by_workload, at_home.plans)
    held = *(make(results.records, [*first, *now]) for make in made_of), replay.table(results.root, first or now)
    on_cards = [*(made for made in held if made), *workspaces.tables(results.root)]
    return [table.catalog(), frame.columns(), *of_each, *of_folder(results.root), *on_cards]
