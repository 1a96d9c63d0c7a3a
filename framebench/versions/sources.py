"""Get the records of two releases: read the suite's, or measure a user's model."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from framebench.analysis.results import Results
from framebench.cli.shared import err, find_machines, repeat_options, say
from framebench.engine.progress import CaseProgress
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.record import Record
from framebench.user_file.opening import open_model
from framebench.versions import measure
from framebench.versions.judge import UnknownVersion, has_both, parse_pair, suggest_run


def read_records_of_both(
    folder: Path,
    machine: str | None,
    base: str,
    change: str,
    cases: Collection[str] | None,
) -> list[Record]:
    """Return the records of the named machine, or else of the first that measured both releases.

    A machine that measured both on any of the `cases` is preferred, unless `cases` is None. Raises
    UnknownVersion if no machine has measured both.
    """
    results = Results(folder)
    with_both = []
    with_named = []
    for name in results.machines:
        records = results.get_records(name)
        if has_both(records, base, change):
            with_both.append(name)
        if has_both(select_named(records, cases), base, change):
            with_named.append(name)
    if machine is None and results.machines and not with_both:
        raise UnknownVersion(
            f"no machine has measured both {base} and {change}; with --device NAME their plans are "
            f"compared; to measure them: {suggest_run(base, change)}{repeat_options(folder)}"
        )
    suitable = with_named or with_both
    records = []
    for name in find_machines(results, machine, suitable.__contains__):
        records += results.get_records(name)
    return records


def select_named(records: list[Record], cases: Collection[str] | None) -> list[Record]:
    """Return the records of the cases with these ids, or all records if `cases` is None."""
    if cases is None:
        return records
    return [record for record in records if record.case in cases]


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
