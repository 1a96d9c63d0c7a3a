"""Releases of a framework by what they plan for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned, code_of
from framebench.devices.tables.table import group_by_reason
from framebench.strategies.strategy import TITLES

CAPTIONS = {
    "jax": "Planned by each release's own compiler, in MiB, not measured.",
    "torch": "Simulated, in MiB reserved, not measured.",
}


def of_releases(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield a table for each framework of the cases that two releases planned."""
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
        cells = [make_cell(by_version.get(version)) for version in versions]
        rows.append((case, *cells, describe_change(by_version, versions)))
    caption = f"{CAPTIONS[framework]} Change: the newest that has a plan against the oldest."
    # of what a simulation of another release is made; a plan of XLA's is the release's own
    if framework == "torch":
        for note in dict.fromkeys(note for planned in predictions for note in planned.notes):
            caption += f" {note}"
    return Table.of_text(
        f"Releases of {TITLES[framework]} by what they plan for one {device.title}",
        f"{caption} {code_of(planned.origin.commit for planned in predictions)}",
        ("case", *versions, "change"),
        rows,
        left=1,
        notes=tuple(group_by_reason(reasons)),
    )


def make_cell(planned: Planned | None) -> str:
    """Return the peak in MiB, or why there is none."""
    if planned is None:
        return "-"
    return format_mib(planned.peak_bytes) if planned.peak_bytes else planned.outcome


def describe_change(by_version: Mapping[str, Planned], versions: Sequence[str]) -> str:
    """Return how the newest peak differs from the oldest; not between a simulation with cuDNN and
    one without.
    """
    sizes = []
    with_cudnn = set()
    for version in versions:
        planned = by_version.get(version)
        if planned and planned.peak_bytes:
            sizes.append(planned.peak_bytes)
            with_cudnn.add("cudnn" in planned.origin.versions)
    if len(sizes) < 2 or len(with_cudnn) > 1:
        return "-"
    return f"{sizes[-1] / sizes[0] - 1:+.2%}"
