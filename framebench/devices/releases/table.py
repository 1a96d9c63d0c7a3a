"""Compare releases of a framework by what they plan for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from packaging.version import Version

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned, describe_code
from framebench.devices.tables.table import group_by_reason
from framebench.strategies.strategy import TITLES

CAPTIONS = {
    "jax": "Planned by each release's own compiler, in MiB, not measured.",
    "torch": "Simulated, in MiB reserved, not measured.",
}


def tabulate_releases(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield a table for each framework, of the cases that at least two releases planned."""
    for framework in CAPTIONS:
        on_it = [
            planned
            for planned in predictions
            if planned.framework == framework and planned.device == device.name
        ]
        count = Counter(planned.case for planned in on_it)
        several = [planned for planned in on_it if count[planned.case] > 1]
        if several:
            yield make_table(several, device)


def make_table(predictions: Sequence[Planned], device: Device) -> Table:
    """Return a table of one framework's predictions, with a column for each release."""
    framework = predictions[0].framework
    by_case: dict[str, dict[str, Planned]] = {}
    reasons = {}
    for planned in predictions:
        by_case.setdefault(planned.case, {})[planned.framework_version] = planned
        if planned.reason:
            reasons[f"{planned.framework_version} {planned.case}"] = planned.reason
    versions = sorted({planned.framework_version for planned in predictions}, key=Version)
    rows = []
    for case, by_version in sorted(by_case.items()):
        cells = []
        sizes = []
        # of the plans: a simulation of convolutions with cuDNN is not compared with one without
        has_cudnn = set()
        for version in versions:
            release = by_version.get(version)
            if release and release.peak_bytes:
                sizes.append(release.peak_bytes)
                has_cudnn.add(release.has_convolutions and "cudnn" in release.origin.versions)
                cells.append(format_mib(release.peak_bytes))
            else:
                cells.append(release.outcome if release else "-")
        change = "-"
        if len(sizes) > 1 and len(has_cudnn) == 1:
            change = f"{sizes[-1] / sizes[0] - 1:+.2%}"
        rows.append((case, *cells, change))
    caption = f"{CAPTIONS[framework]} Change: the newest that has a plan against the oldest."
    # a note says what a simulation of another release is made of; XLA's plan is the release's own
    if framework == "torch":
        for note in dict.fromkeys(note for planned in predictions for note in planned.notes):
            caption += f" {note}"
    return Table.of_text(
        f"Releases of {TITLES[framework]} by what they plan for one {device.title}",
        f"{caption} {describe_code(planned.origin.commit for planned in predictions)}",
        ("case", *versions, "change"),
        rows,
        left=1,
        notes=tuple(group_by_reason(reasons)),
    )
