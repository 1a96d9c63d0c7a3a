"""The prediction of one measured row, as a file below data/predicted."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from framebench.engine.environments import Environment, SetupError, run_module
from framebench.records import provenance
from framebench.records.provenance import ROOT
from framebench.records.record_parts import Bytes, Moment, RecordPart
from studies.published_peaks.programs import Program
from studies.published_peaks.rows import Row

FOLDER = "predicted"
WORKER = "studies.published_peaks.torch_worker"


class Judged(RecordPart):
    """Peaks of the whole run on the simulated card, by counter; or why there are none."""

    schema_version: Literal[1] = 1
    row: str  # its key
    source: str
    model: str
    program: dict[str, str | int | tuple[int, ...]]
    allocated_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    weights_bytes: Bytes | None = None  # of which xMem's first sample may have held some
    # reserved where the program's `blas_takes` were the opposite
    blas_otherwise_bytes: Bytes | None = None
    failed: str | None = None
    # fingerprint of the sources that predicted, in files made before 2026-11-28
    code: str | None = None
    predicted_at: Moment
    commit: str | None
    versions: dict[str, str] = Field(default={})
    wall_s: float

    @model_validator(mode="after")
    def holds_together(self) -> Judged:
        if (self.failed is None) != (
            self.reserved_bytes is not None and self.allocated_bytes is not None
        ):
            raise ValueError(
                f"failed is {self.failed}, and the peaks are {self.allocated_bytes} "
                f"and {self.reserved_bytes}"
            )
        return self

    def predicted_bytes(self, beside: int) -> int | None:
        """In the row's own quantity; `beside` is what the card's libraries hold beside the pool."""
        if self.reserved_bytes is None:
            return None
        by_quantity = {"allocated": self.allocated_bytes, "reserved": self.reserved_bytes}
        return by_quantity.get(str(self.program["quantity"]), self.reserved_bytes + beside)


def predict(rows: Sequence[tuple[Row, Program]], environment: Environment) -> list[Judged]:
    """In one fresh process on one core; a failure is an answer, too."""
    said = [dataclasses.asdict(program) for _, program in rows]
    variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    try:
        lines = run_module(environment, WORKER, json.dumps(said), variables=variables).splitlines()
        found = [json.loads(line) for line in lines]
    except (SetupError, ValueError) as error:
        found = [{"failed": str(error).strip().splitlines()[-1][-300:], "wall_s": 0}] * len(rows)
    shared: dict[str, Any] = {"predicted_at": datetime.now(UTC), "commit": provenance.find_commit()}
    return [
        Judged(
            row=row.key,
            source=row.source,
            model=row.model,
            program=dataclasses.asdict(program),
            **shared,
            **answer,
        )
        for (row, program), answer in zip(rows, found, strict=True)
    ]


def file(folder: Path, row: Row) -> Path:
    return folder / FOLDER / f"{row.key}.json"


def write(folder: Path, judged: Judged, row: Row) -> None:
    """Atomically, over what was predicted before."""
    target = file(folder, row)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    # no prediction has a fingerprint of its sources any more
    temporary.write_text(judged.model_dump_json(indent=1, exclude={"code"}) + "\n")
    temporary.replace(target)


def read(folder: Path, row: Row) -> Judged | None:
    """None where the row was not predicted, or the file is no prediction of this version's."""
    try:
        return Judged.model_validate_json(file(folder, row).read_bytes())
    except (OSError, ValidationError):
        return None


def pending(
    folder: Path, rows: list[tuple[Row, Program]], again: bool
) -> Iterator[tuple[Row, Program]]:
    """Yield the rows that have no prediction yet; with `again` all of them."""
    for row, program in rows:
        if again or read(folder, row) is None:
            yield row, program
