"""List the releases of the frameworks for which there are records or predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from packaging.version import Version

from framebench.analysis.rendering import MISSING, Table
from framebench.devices.plans.planned import Planned
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS, TITLES

TITLE = "Releases that can be compared"


Release = tuple[str, str]  # framework and version


def tabulate_recorded(records: Iterable[Record], predictions: Iterable[Planned]) -> Table:
    """Return the releases of each framework, with the machines and devices that have cases of it.

    Only cases with a peak count: `records` may have failed, and `predictions` be refused.
    """
    of_machines = []
    for record in records:
        if record.status == "ok" and record.framework_version and record.peaks:
            release = record.parsed.framework, record.framework_version
            of_machines.append((release, record.provenance.machine, record.case))
    of_devices = []
    for prediction in predictions:
        if prediction.peak_bytes is not None:
            release = prediction.framework, prediction.framework_version
            of_devices.append((release, prediction.device, prediction.case))
    measured, predicted = count_cases(of_machines), count_cases(of_devices)
    rows = []
    for framework in FRAMEWORKS:
        versions = [version for name, version in {*measured, *predicted} if name == framework]
        for version in sorted(versions, key=Version, reverse=True):
            release = framework, version
            places = (measured.get(release, MISSING), predicted.get(release, MISSING))
            rows.append((TITLES[framework], f"{framework}=={version}", *places))
    return Table.of_text(
        TITLE,
        "Number of cases with a peak. `framebench versions compare` of two releases of a framework "
        "needs the same cases of both on one machine, or with --device for one device.",
        ("framework", "release", "measured on", "predicted for"),
        rows,
        left=4,
    )


def count_cases(cells: Iterable[tuple[Release, str, str]]) -> dict[Release, str]:
    """Return how many cases each machine or device has of a release, such as `zen4-2core 12`.

    A cell is a release, a place and a case.
    """
    counts = Counter((release, place) for release, place, _case in set(cells))
    texts: dict[Release, str] = {}
    for (release, place), count in sorted(counts.items()):
        before = f"{texts[release]}, " if release in texts else ""
        texts[release] = f"{before}{place} {count}"
    return texts
