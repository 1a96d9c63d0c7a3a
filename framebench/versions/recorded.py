"""List the releases of the frameworks for which there are records or predictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from packaging.version import Version

from framebench.analysis.rendering import MISSING, Table
from framebench.devices.plans.planned import Planned
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS, TITLES

TITLE = "Releases that can be compared"
CasesByPlace = dict[str, set[str]]  # a place is a machine or a device


class RecordedRelease(NamedTuple):
    """A version of a framework."""

    framework: str
    version: str


def tabulate_recorded(records: Iterable[Record], predictions: Iterable[Planned]) -> Table:
    """Return the releases of each framework, with the machines and devices that have cases of it.

    Only cases with a peak count: `records` may have failed, and `predictions` be refused.
    """
    machines: dict[RecordedRelease, CasesByPlace] = defaultdict(lambda: defaultdict(set))
    for record in records:
        if record.status == "ok" and record.framework_version and record.peaks:
            release = RecordedRelease(record.parsed.framework, record.framework_version)
            machines[release][record.provenance.machine].add(record.case)
    devices: dict[RecordedRelease, CasesByPlace] = defaultdict(lambda: defaultdict(set))
    for prediction in predictions:
        if prediction.peak_bytes is not None:
            release = RecordedRelease(prediction.framework, prediction.framework_version)
            devices[release][prediction.device].add(prediction.case)
    rows = []
    for framework in FRAMEWORKS:
        releases = [each for each in {*machines, *devices} if each.framework == framework]
        releases.sort(key=lambda release: Version(release.version), reverse=True)
        for release in releases:
            rows.append(
                (
                    TITLES[framework],
                    f"{framework}=={release.version}",
                    count_cases(machines[release]),
                    count_cases(devices[release]),
                )
            )
    return Table.of_text(
        TITLE,
        "Number of cases with a peak. `framebench versions compare` of two releases of a framework "
        "needs the same cases of both on one machine, or with --device for one device.",
        ("framework", "release", "measured on", "predicted for"),
        rows,
        left=4,
    )


def count_cases(cases: CasesByPlace) -> str:
    """Return how many cases each machine or device has, such as `zen4-2core 12`."""
    return ", ".join(f"{place} {len(cases[place])}" for place in sorted(cases)) or MISSING
