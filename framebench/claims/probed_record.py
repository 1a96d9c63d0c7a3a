"""The result of a probe: `results/claims/<machine>/<probe>/<time>.json`, checked when read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from framebench.records.record import Part, Provenance
from framebench.records.store import BadRecord, explain


class Probed(Part):
    """What one probe found on one machine: names and whether they exist, or numbers by round."""

    schema_version: Literal[1] = 1
    probe: str
    names: dict[str, bool] = Field(default={})
    found: dict[str, list[float]] = Field(default={})
    error: str = ""  # how it ended, of a snippet that does not run
    provenance: Provenance


def read(path: Path) -> Probed:
    """Raises BadRecord with the file's name and what is wrong with it."""
    try:
        return Probed.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadRecord(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise BadRecord(f"{path}: {explain(error)}") from error
