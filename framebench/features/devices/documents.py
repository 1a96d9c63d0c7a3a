"""The tables of devices in documents: the catalog, strategies and releases of JAX by their predictions, and the judge's."""

from __future__ import annotations

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.features.devices.catalog import DEVICES
from framebench.features.devices.fit.fitting import errors
from framebench.features.devices.judge.table import of_folder
from framebench.features.devices.plans.store import every
from framebench.features.devices.tables import batches, frame, strategies, table


def documents(results: Results) -> list[Comparison]:
    predictions = list(every(results.root))
    releases = (table.of_releases(predictions, device) for device in DEVICES)
    by_strategy = (made for device in DEVICES for made in strategies.tables(predictions, device))
    largest = (made for device in DEVICES for made in batches.tables(predictions, device, errors(results.root)))
    ours = [table.catalog(), frame.columns(), *(made for made in releases if made), *by_strategy, *largest]
    return [*ours, *of_folder(results.root)]
