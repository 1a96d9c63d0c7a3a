"""Plans of programs that users reported, by release of JAX. `jax_reported.py` has the programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version
from pydantic import Field

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device, find
from framebench.devices.plans.process import WITHOUT_DEVICE
from framebench.devices.plans.version import PLANNER_VERSION
from framebench.engine.environments import Environment, ask_module
from framebench.records import provenance
from framebench.records.record import Release
from framebench.records.record_parts import Bytes, Moment, RecordPart
from framebench.records.store import read_models, write_atomically

FOLDER = Path("planned_reports")
WORKER = "framebench.devices.releases.jax_reported"
REPORTED = {  # each report in a few words
    "jax 27748": "recomputing blocks of a long scan saves nothing since 0.5 (117 GB without it; "
    "22 GB with it in 0.4.13)",
    "marin 5394": "temporaries of a step with experts from 15GiB in 0.8.0 to 54GiB in 0.9.2, "
    "eight H100s",
}


class Program(RecordPart):
    """The plan of one variant on one device, or why there is none."""

    arguments: Bytes | None = None
    outputs: Bytes | None = None
    temporaries: Bytes | None = None
    aliased: Bytes | None = None
    reason: str | None = None


class Reported(RecordPart):
    """One release on one device."""

    schema_version: int = 1
    device: str
    framework_version: Release
    programs: dict[str, dict[str, Program]]  # by report and variant
    flags: dict[str, str] = Field(default={})
    code: str  # version of the planners (see `plans/version.py`)
    planned_at: Moment
    commit: str | None


def plan_reports(device: Device, environment: Environment) -> Reported:
    """Return the plans that a release of JAX makes for the programs of reports.

    Raises SetupError with what the compiler printed.
    """
    variables = WITHOUT_DEVICE | {"XLA_FLAGS": ""}
    programs = ask_module(environment, WORKER, device.name, variables=variables)
    return Reported(
        device=device.name,
        framework_version=environment.version,
        code=str(PLANNER_VERSION),
        planned_at=datetime.now(UTC),
        commit=provenance.find_code(),
        **programs,
    )


def write(results: Path, reported: Reported) -> None:
    """Write the file of a device and a release at once."""
    target = results / FOLDER / reported.device / f"jax-{reported.framework_version}.json"
    write_atomically(reported.model_dump_json(indent=1, exclude_none=True) + "\n", target)


def read(results: Path, device: str) -> list[Reported]:
    """Return the cached reports of a device, one of each release, the oldest release first.

    Files that cannot be read are named in RecordWarnings.
    """
    by_version = {}
    for release in read_models(Reported, sorted((results / FOLDER / device).glob("*.json"))):
        by_version[release.framework_version] = release
    return sorted(by_version.values(), key=lambda release: Version(release.framework_version))


def make_tables(results: Path, device: str) -> Iterator[Table]:
    """Yield a table for each report, if anything is cached."""
    releases = read(results, device)
    if not releases:
        return
    versions = [release.framework_version for release in releases]
    for report, claim in REPORTED.items():
        cells: dict[str, dict[str, str]] = {}  # by variant and version
        for release in releases:
            for variant, program in release.programs.get(report, {}).items():
                row = cells.setdefault(variant, dict.fromkeys(versions, "-"))
                row[release.framework_version] = format_mib(program.temporaries)
        caption = (
            f"Reported: {claim}. Temporaries in MiB by release of JAX, planned and not measured. "
            "The program is ours, at the report's shapes "
            "(framebench/devices/releases/jax_reported.py)."
        )
        title = f"Report {report} on one {find(device).title}"
        rows = [(variant, *row.values()) for variant, row in cells.items()]
        yield Table.of_text(title, caption, ("variant", *versions), rows, left=1)
