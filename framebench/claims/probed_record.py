"""The result of a probe: `results/claims/<machine>/<probe>/<time>.json`, checked when read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from framebench.records.record import Part, Provenance
from framebench.records.store import read_model


class Probed(Part):
    """What one probe found on one machine: names and whether they exist, or numbers by round."""

    schema_version: Literal[1] = 1
    probe: str
    names: dict[str, bool] = Field(default={})
    found: dict[str, list[float]] = Field(default={})
    error: str = ""  # how it ended, of a snippet that does not run
    provenance: Provenance


def read(path: Path) -> Probed:
    """Return the result in a file.

    Raises BadRecord with the file's name and what is wrong with it.
    """
    return read_model(Probed, path)
