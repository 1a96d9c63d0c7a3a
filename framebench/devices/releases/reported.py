"""Plans of programs that users reported, by release of JAX. `jax_reported.py` has the programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version
from pydantic import Field

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import Device, find
from framebench.devices.plans.process import ALONE
from framebench.devices.plans.version import PLANNER_VERSION
from framebench.engine.environments import Environment, run_module
from framebench.records import provenance
from framebench.records.record import Bytes, Moment, Part

FOLDER = Path("planned_reports")
WORKER = "framebench.devices.releases.jax_reported"
REPORTED = {  # what each says
    "jax 27748": "recomputing blocks of a long scan saves nothing since 0.5 (117 GB without it; 22 GB with it in 0.4.13)",
    "marin 5394": "temporaries of a step with experts from 15GiB in 0.8.0 to 54GiB in 0.9.2, eight H100s",
}


class Program(Part):
    """What is planned of one variant, on one device; or why nothing is."""

    arguments: Bytes | None = None
    outputs: Bytes | None = None
    temporaries: Bytes | None = None
    aliased: Bytes | None = None
    reason: str | None = None


class Reported(Part):
    """One release on one device."""

    schema_version: int = 1
    device: str
    framework_version: str
    programs: dict[str, dict[str, Program]]  # by report and variant
    flags: dict[str, str] = Field(default={})
    code: str  # version of the planners (see `plans/version.py`)
    planned_at: Moment
    commit: str | None


def plan(device: Device, environment: Environment) -> Reported:
    """Raises SetupError with what the compiler printed."""
    printed = run_module(environment, WORKER, device.name, XLA_FLAGS="", **ALONE)
    return Reported(
        device=device.name, framework_version=environment.version, code=str(PLANNER_VERSION), planned_at=datetime.now(UTC),
        commit=provenance.commit(), **json.loads(printed.strip().splitlines()[-1]),
    )  # fmt: skip


def file(results: Path, device: str, version: str) -> Path:
    return results / FOLDER / device / f"jax-{version}.json"


def write(results: Path, reported: Reported) -> None:
    target = file(results, reported.device, reported.framework_version)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(reported.model_dump_json(indent=1, exclude_none=True) + "\n")
    temporary.replace(target)


def read(results: Path, device: str) -> list[Reported]:
    """By release, the oldest first."""
    found = [Reported.model_validate_json(f.read_bytes()) for f in (results / FOLDER / device).glob("*.json")]
    return sorted(found, key=lambda one: Version(one.framework_version))


def tables(results: Path, device: str) -> Iterator[Comparison]:
    """One for each report."""
    releases = read(results, device)
    for report in REPORTED if releases else ():
        by = {one.framework_version: one.programs.get(report, {}) for one in releases}
        variants = dict.fromkeys(name for programs in by.values() for name in programs)
        rows = tuple((name, *(_cell(programs.get(name)) for programs in by.values())) for name in variants)
        yield _table(report, rows, list(by), device)


def _table(report: str, rows: tuple[tuple[str, ...], ...], versions: list[str], device: str) -> Comparison:
    caption = (
        f"Reported: {REPORTED[report]}. Temporaries in MiB by release of JAX, planned and not measured. "
        "The program is ours, at the report's shapes (framebench/devices/releases/jax_reported.py)."
    )
    return Comparison.of_text(f"Report {report} on one {find(device).title}", caption, ("variant", *versions), rows, left=1)


def _cell(program: Program | None) -> str:
    if program is None or program.temporaries is None:
        return "-"
    return mib(program.temporaries)
