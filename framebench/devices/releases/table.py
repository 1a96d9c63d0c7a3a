"""Compare releases of a framework by what they plan for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned, describe_code
from framebench.devices.tables.table import group_by_reason
from framebench.strategies.strategy import TITLES
from framebench.suite.sequences import drop_duplicates

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
    by_case: dict[str, dict[str, Planned]] = {}  # and then by release
    reasons = {}
    for planned in predictions:
        by_case.setdefault(planned.case, {})[planned.framework_version] = planned
        if planned.reason:
            reasons[f"{planned.framework_version} {planned.case}"] = planned.reason
    versions = sorted({planned.framework_version for planned in predictions}, key=Version)
    rows = []
    for case, by_version in sorted(by_case.items()):
        rows.append(make_row(case, by_version, versions))
    return Table.of_text(
        f"Releases of {TITLES[framework]} by what they plan for one {device.title}",
        write_caption(framework, predictions),
        ("case", *versions, "change"),
        rows,
        left=1,
        notes=tuple(group_by_reason(reasons)),
    )


def make_row(
    case: str, by_version: Mapping[str, Planned], versions: Sequence[str]
) -> tuple[str, ...]:
    """Return a case's cells: its name, what each release planned, and the change.

    `versions` has those of all cases, the oldest first.
    """
    cells = []
    in_order = []
    for version in versions:
        planned = by_version.get(version)
        cells.append(describe_release(planned))
        if planned is not None:
            in_order.append(planned)
    return (case, *cells, describe_change(in_order))


def write_caption(framework: str, predictions: Sequence[Planned]) -> str:
    """Return what the numbers of a table are, and by which code they were planned."""
    sentences = [
        CAPTIONS[framework],
        "Change: the newest that has a plan against the oldest.",
    ]
    # a note says what a simulation of another release is made of; XLA's plan is the release's own
    if framework == "torch":
        for planned in predictions:
            sentences += planned.notes
    sentences.append(describe_code(planned.origin.commit for planned in predictions))
    return " ".join(drop_duplicates(sentences))


def describe_release(planned: Planned | None) -> str:
    """Return the peak that a release planned for a case in MiB, or why there is none."""
    if planned is None:
        return "-"
    return format_mib(planned.peak_bytes) if planned.peak_bytes else planned.outcome


def describe_change(predictions: Sequence[Planned]) -> str:
    """Return how the last of a case's peaks differs from the first, or a dash.

    Simulations of convolutions with cuDNN are not compared with simulations without.
    """
    peaks = []
    has_cudnn = set()
    for planned in predictions:
        if planned.peak_bytes:
            peaks.append(planned.peak_bytes)
            has_cudnn.add(planned.has_convolutions and "cudnn" in planned.origin.versions)
    if len(peaks) < 2 or len(has_cudnn) > 1:
        return "-"
    return f"{peaks[-1] / peaks[0] - 1:+.2%}"
