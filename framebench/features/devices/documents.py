"""The tables that documents show of devices: the catalog, releases of JAX by their plans, and errors against real cards."""

from __future__ import annotations

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.features.devices import table
from framebench.features.devices.catalog import DEVICES
from framebench.features.devices.judge.table import of_folder
from framebench.features.devices.planned import every


def documents(results: Results) -> list[Comparison]:
    predictions = list(every(results.root))
    releases = (table.of_releases(predictions, device) for device in DEVICES)
    return [table.catalog(), *(made for made in releases if made), *of_folder(results.root)]
