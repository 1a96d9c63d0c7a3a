"""Get the records of two releases: read the suite's, or measure a user's model."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from framebench.analysis.results import Results
from framebench.cli.shared import err, find_machines, repeat_options, say
from framebench.devices.plans.store import read_every
from framebench.engine.progress import CaseProgress
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import FULL_SIZE
from framebench.user_file.opening import open_model
from framebench.versions import measure
from framebench.versions.judge import explain_no_machine, has_both, parse_pair


def read_records_of_both(
    folder: Path,
    machine: str | None,
    base: str,
    change: str,
    cases: Collection[str] | None,
) -> list[Record]:
    """Return the records of the named machine, or else of the first that measured both releases.

    A machine that measured both on any of the `cases` is preferred, unless `cases` is None. Raises
    UnknownVersion if no machine has measured both, or if they are no two releases of one framework.
    """
    parse_pair(base, change)  # only for the error
    results = Results(folder)

    def has_measured_both(name: str) -> bool:
        return has_both(results.get_records(name), base, change)

    def has_measured_named(name: str) -> bool:
        return has_both(select_named(results.get_records(name), cases), base, change)

    if machine is None and results.machines and not any(map(has_measured_both, results.machines)):
        command = find_plans_of_both(folder, base, change)
        plans = f"their plans for a GPU: {command}; to measure them: " if command else ""
        raise explain_no_machine(results.records, base, change, plans)
    is_suitable = has_measured_both
    if any(map(has_measured_named, results.machines)):
        is_suitable = has_measured_named
    records = []
    for name in find_machines(results, machine, is_suitable):
        records += results.get_records(name)
    return records


def select_named(records: list[Record], cases: Collection[str] | None) -> list[Record]:
    """Return the records of the cases with these ids, or all records if `cases` is None."""
    if cases is None:
        return records
    return [record for record in records if record.case in cases]


def find_plans_of_both(results: Path, base: str, change: str) -> str:
    """Return the command that compares cached plans of both releases for a device.

    It is empty where there are none for the same case and device.
    """
    # the device and the case of each plan, by release
    planned: dict[str, set[tuple[str, str]]] = {base: set(), change: set()}
    for plan in read_every(results):
        release = f"{plan.framework}=={plan.framework_version}"
        if release in planned and plan.peak_bytes is not None:
            planned[release].add((plan.device, plan.case))
    planned_by_both = sorted(planned[base] & planned[change])
    if not planned_by_both:
        return ""
    at_full_size = [plan for plan in planned_by_both if plan[1].endswith(f"/{FULL_SIZE}")]
    device, case = (at_full_size or planned_by_both)[0]
    # without a case the command compares all that were planned at full size
    case_argument = "" if at_full_size else f" {case}"
    return (
        f"framebench versions compare {base} {change}{case_argument} --device {device}"
        f"{repeat_options(results)}"
    )


@dataclass(frozen=True)
class FileRequest:
    """A user's own model, and what is measured of it in both releases."""

    file: Path
    batch: int
    scenario: str
    strategies: list[str]
    blocks: int
    rounds: int


def measure_file(request: FileRequest, base: str, change: str, results: Path) -> list[Record]:
    """Measure both releases on a user's own model in the same blocks, and return their records.

    Both releases are verified against the baseline that the older release computes. Raises Fault,
    UnknownVersion, and SetupError for a release that cannot be installed.
    """
    framework, old, new = parse_pair(base, change)
    environments_by_version = measure.install(framework, [old, new], say)
    options = Options(rounds=request.rounds, cold_blocks=measure.COLD_BLOCKS)
    session = secrets.token_hex(6)
    process_count = request.blocks * len(environments_by_version)  # of each case
    with (
        open_model(
            request.file,
            request.scenario,
            request.strategies,
            request.batch,
            env=str(environments_by_version[old].python),
            results=results,
        ) as (cases, _environment, folder),
        CaseProgress(cases, folder, err, process_count) as progress,
    ):
        measure.measure(
            cases, environments_by_version, request.blocks, session, options, folder, progress
        )
        records = store.read_all(folder)
    return [record for record in records if record.provenance.session == session]
