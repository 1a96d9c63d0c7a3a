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
    cases: Collection[str] | None = None,
) -> list[Record]:
    """Return the records of the named machine, or else of the first that measured both releases.

    A machine that measured both on any of the `cases` is preferred, if they are given. Raises
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
    answers = has_measured_both
    if any(map(has_measured_named, results.machines)):
        answers = has_measured_named
    records = []
    for name in find_machines(results, machine, answers):
        records += results.get_records(name)
    return records


def select_named(records: list[Record], cases: Collection[str] | None) -> list[Record]:
    """Return the records of these cases, or all without cases."""
    if cases is None:
        return records
    return [record for record in records if record.case in cases]


def find_plans_of_both(results: Path, base: str, change: str) -> str:
    """Return the command that compares cached plans of both releases for a device.

    It is empty where there are none for the same case and device.
    """
    places: dict[str, set[tuple[str, str]]] = {base: set(), change: set()}
    for planned in read_every(results):
        release = f"{planned.framework}=={planned.framework_version}"
        if release in places and planned.peak_bytes is not None:
            places[release].add((planned.device, planned.case))
    of_both = sorted(places[base] & places[change])
    if not of_both:
        return ""
    # without a case all of this size are compared
    of_full_size = [place for place in of_both if place[1].endswith(f"/{FULL_SIZE}")]
    device, case = (of_full_size or of_both)[0]
    named = "" if of_full_size else f" {case}"
    return (
        f"framebench versions compare {base} {change}{named} --device {device}"
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
    ready = measure.install(framework, [old, new], say)
    options = Options(rounds=request.rounds, cold_blocks=measure.COLD_BLOCKS)
    session = secrets.token_hex(6)
    opened = open_model(
        request.file,
        request.scenario,
        request.strategies,
        request.batch,
        env=str(ready[old].python),
        results=results,
    )
    turns = request.blocks * len(ready)
    with (
        opened as (cases, _, folder),
        CaseProgress(cases, folder, err, turns) as progress,
    ):
        measure.measure(cases, ready, request.blocks, session, options, folder, progress)
        records = store.read_all(folder)
    return [record for record in records if record.provenance.session == session]
