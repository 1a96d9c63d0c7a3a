"""Records: the full truth about each measured case, as JSON files that only ever get added.

`results/records/<machine>/<framework>-<version>/<case with dots>/<time>.json`. Checked against the schema on write and on read,
written atomically. Counters that do not exist are absent, never zero. `analysis.load.preferred` tells
which of a case's records counts.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from framebench.records import provenance
from framebench.suite.cases import Case
from framebench.suite.registry import SCENARIOS
from framebench.suite.strategy import FRAMEWORKS

SCHEMA = 1
DISTURBED = 1.10  # wall-clock over CPU time of a step; on an idle machine 1 within 2 %
Status = Literal["ok", "oom", "timeout", "crashed", "unsupported", "wrong"]
# The first of these that a record has is its `peak`: exact counters of the framework come before the kernel's view.
INSTRUMENTS = ("allocator.in_use", "compiler.plan", "host.rss")
ALL_INSTRUMENTS = (*INSTRUMENTS, "allocator.active", "allocator.reserved", "device.process")


class BadRecord(Exception):
    """A file under results/records that is not a record this version can read; the message names file and reason."""


class RecordWarning(UserWarning):
    """A file was skipped."""


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Verification(Part):
    """`relative_error` of each observed value against golden.json, and the tolerance it had to meet."""

    passed: bool
    reason: str | None = None
    against: str | None = None  # whose values `golden` holds, where it is not golden.json: a record of the same session
    observed: dict[str, float | None] = {}
    golden: dict[str, float] = {}
    relative_error: dict[str, float | None] = {}
    tolerance: dict[str, float] = {}


class Proof(Part):
    """Whether the strategy was seen to be on, and what was counted to tell."""

    proven: bool
    evidence: dict[str, Any]


class Calibration(BaseModel):
    """Whether known sizes and lengths came out right on this machine, when, and which did not."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    measured_at: datetime
    passed: bool
    failed: list[str] = []


class Provenance(Part):
    session: str
    measured_at: datetime
    command: str
    commit: str | None
    dirty: bool | None
    machine: str
    hardware: dict[str, Any]
    python: str | None = None
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}  # the variables set for the worker
    threads: int | None = None
    core: int | None = None  # the timing worker was pinned to it
    load_before: float | None = None  # one-minute load average
    load_after: float | None = None
    profile: str | None = None  # what the run was asked for, where it was no single case
    memory_limit: int | None = None  # bytes that the worker was allowed to map: a record under a limit is in no table
    calibration: Calibration | None = None
    gpu: dict[str, Any] = {}  # the card before and after: clocks, power limit, temperature, who else was on it
    protocol: int


@cache  # reading thousands of records asks for the same cases again and again
def case_of(text: str) -> Case:
    """The case with this id, declared in a profile or not. Raises ValueError if this version of framebench cannot know it."""
    try:
        case = Case.of(text)
    except ValueError:
        raise ValueError(f"{text!r} is no case: workload/framework/scenario/strategy/bN/size") from None
    try:
        known = case.framework in FRAMEWORKS and case.scenario in SCENARIOS and work_of(case) > 0
    except (KeyError, ValueError):
        known = False
    if not known:
        raise ValueError(f"{text!r} is no case that this version of framebench knows")
    return case


@cache
def work_of(case: Case) -> int:
    return case.work


class Record(Part):
    """One case, measured once. Bytes are bytes, times are seconds."""

    schema_version: Literal[1] = 1
    case: str
    status: Status
    reason: str | None = None
    peaks: dict[str, int] = {}  # of a steady step, by instrument
    peak_samples: list[dict[str, int]] = []
    cold_peaks: dict[str, int] = {}  # of the first step: what compilation and autotuning add
    live_bytes: int | None = None  # weights, gradients, optimizer states, inputs between steps
    allocator: dict[str, int] = {}  # a GPU allocator's other counters at the end, and the process's bytes beyond its pool
    first_step_s: float | None = None
    step_s: list[float] = []
    device_step_s: list[float] = []  # of the last of these steps, by events on the device; where the framework has them
    energy_j_per_step: float | None = None  # of the whole card, idle power included
    cpu_s_per_step: float | None = None
    shares: dict[str, float] = {}  # of the step time: `wait` for input, Python's `collector`
    spent_s: dict[str, float] = {}  # where the case's wall-clock time went
    verification: Verification | None = None
    effect: Proof | None = None
    log_tail: str | None = None
    provenance: Provenance = Field(repr=False)

    @field_validator("case")
    @classmethod
    def known(cls, text: str) -> str:
        case_of(text)
        return text

    @property
    def parsed(self) -> Case:
        return case_of(self.case)

    @property
    def peak_instrument(self) -> str | None:
        return next((i for i in INSTRUMENTS if i in self.peaks), None)

    @property
    def peak_bytes(self) -> int | None:
        return self.peaks[self.peak_instrument] if self.peak_instrument else None

    @property
    def step_time_s(self) -> float | None:
        """Median over the samples."""
        return statistics.median(self.step_s) if self.step_s else None

    @property
    def excess(self) -> float:
        """Wall-clock over CPU time of a step, what it waited for input aside: well above 1 if others used the core. 1 where it
        is idle to ask: with several threads, or a GPU, the two need not agree."""
        proof = self.provenance
        if not self.step_s or not self.cpu_s_per_step or proof.threads != 1 or proof.hardware.get("device", "cpu") != "cpu":
            return 1.0
        return sum(self.step_s) / len(self.step_s) * (1 - self.shares.get("wait", 0.0)) / self.cpu_s_per_step

    @property
    def disturbed(self) -> bool:
        return self.excess > DISTURBED

    @property
    def throughput(self) -> float | None:
        """Samples (or tokens that are no padding) per second."""
        case = self.parsed
        if self.step_time_s is None:
            return None
        return work_of(case) / self.step_time_s

    @property
    def framework_version(self) -> str | None:
        """The release, without the build's label (`2.13.0` of `2.13.0+cpu`; `versions` keeps it)."""
        version = self.provenance.versions.get(self.case.split("/")[1])
        return version and version.split("+")[0]


def calibration_file(root: Path) -> Path:
    """What `framebench doctor` found out about this machine's instruments."""
    return root / "calibration" / f"{provenance.machine_name()}.json"


def calibration(root: Path) -> Calibration | None:
    """The summary of it, if this machine was calibrated and the file can be read."""
    try:
        return Calibration.model_validate_json(calibration_file(root).read_bytes())
    except (OSError, ValidationError):
        return None


def folder(root: Path, machine: str, environment: str, case: Case) -> Path:
    """Where the records of one case lie; `environment` is for instance `torch-2.13.0`."""
    return root / "records" / machine / environment / case.id.replace("/", ".")


def write(record: Record, where: Path) -> Path:
    """Write atomically under the time of measurement; the full record is on disk before its name appears. A clock that stands
    still or jumps back costs no record: a name that is taken gets a number."""
    where.mkdir(parents=True, exist_ok=True)
    stamp = record.provenance.measured_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")
    names = chain([f"{stamp}.json"], (f"{stamp}-{n}.json" for n in count(1)))
    handle, temporary = tempfile.mkstemp(dir=where, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(record.model_dump_json(indent=1, exclude_defaults=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        target = next(where / name for name in names if not (where / name).exists())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def read(path: Path | str) -> Record:
    """Raises BadRecord with the file's name and what is wrong with it."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise BadRecord(f"{path}: {error.strerror}") from error
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        raise BadRecord(f"{path}: {explain(error)}") from error


def explain(error: ValidationError) -> str:
    """One line: a newer schema is called that, anything else by its first fault."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if place == "schema_version" and isinstance(first["input"], int) and first["input"] > SCHEMA:
        return f"written in schema {first['input']}, newer than this framebench knows ({SCHEMA}); upgrade to read it"
    return f"not a framebench record: {place + ': ' if place else ''}{first['msg']}"


def read_all(root: Path) -> Iterator[Record]:
    """Every readable record under `root`/records; the others are named in a RecordWarning, and left alone."""
    # names, not Paths: to make and list these takes as long as to read the files
    for name in sorted(os.path.join(where, n) for where, _, names in os.walk(root / "records") for n in names):
        try:
            if name.endswith(".json"):
                yield read(name)
        except BadRecord as error:
            warnings.warn(f"skipped {error}", RecordWarning, stacklevel=2)


def of_cases(root: Path, pattern: str) -> Iterator[Record]:
    """The readable records in the folders of the cases whose id, with dots for strokes, matches a glob; no other is opened."""
    for path in sorted((root / "records").glob(f"*/*/{pattern}/*.json")):
        with contextlib.suppress(BadRecord):  # `read_all` is who names them
            yield read(path)


def all_of_session(where: Path, session: str) -> list[Record]:
    """What this session has measured of a case by now, oldest first; what cannot be read is passed over."""
    found = []
    for path in sorted(where.glob("*.json")):
        with contextlib.suppress(BadRecord):
            found.append(read(path))
    return [r for r in found if r.provenance.session == session]


def of_session(where: Path, session: str) -> Record | None:
    """The record of this session in a case's folder, if it was measured already."""
    for path in sorted(where.glob("*.json"), reverse=True):
        try:
            record = read(path)
        except BadRecord:
            continue
        if record.provenance.session == session:
            return record
    return None
