"""Define the result of a probe: a line of `results/claims/<machine>.jsonl`, checked when read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from framebench.records.record_parts import Provenance, RecordPart


class Probed(RecordPart):
    """The result of a probe on one machine: names and whether they exist, or numbers by round."""

    schema_version: Literal[1] = 1
    probe: str
    names: dict[str, bool] = Field(default={})
    found: dict[str, list[float]] = Field(default={})
    error: str = ""  # how it ended, of a snippet that does not run
    provenance: Provenance
