"""Releases of a framework by what they plan for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import Device, find
from framebench.devices.plans.planned import Planned, code_of
from framebench.devices.plans.planning import planned_for
from framebench.devices.tables.table import by_reason
from framebench.engine.environments import Say
from framebench.strategies.strategy import TITLES

TOLD = {
    "jax": "Planned by each release's own compiler, in MiB, not measured.",
    "torch": "Simulated, in MiB reserved, not measured.",
}


def on_device(selectors: Sequence[str], name: str, releases: Sequence[str], results: Path, say: Say) -> Comparison:
    """What releases of one framework, such as jax==0.9.2, plan for the device, made now unless it is there.

    Raises UnknownDevice, UnknownCase."""
    predictions = [one for release in releases for one in planned_for(selectors, name, results, say, release)]
    return _table(predictions, find(name))


def of_releases(predictions: Sequence[Planned], device: Device) -> Iterator[Comparison]:
    """Plans of the same cases by releases, a table for each framework; none where no case was planned by two of them."""
    for framework in TOLD:
        ours = [p for p in predictions if p.framework == framework and p.device == device.name]
        count = Counter(p.case for p in ours)
        if several := [p for p in ours if count[p.case] > 1]:
            yield _table(several, device)


def _table(predictions: Sequence[Planned], device: Device) -> Comparison:
    """Of one framework."""
    framework = predictions[0].framework
    peaks = {(p.case, p.framework_version): p for p in predictions}
    versions = sorted({version for _, version in peaks}, key=Version)
    cases = sorted({case for case, _ in peaks})
    rows = tuple((case, *(_cell(peaks.get((case, v))) for v in versions), _change(peaks, case, versions)) for case in cases)
    return Comparison.of_text(
        f"Releases of {TITLES[framework]} by what they plan for one {device.title}",
        f"{TOLD[framework]} Change: the newest that has a plan against the oldest.{_rules(framework, predictions)} "
        f"{code_of(p.origin.commit for p in predictions)}",
        ("case", *versions, "change"),
        rows,
        left=1,
        notes=tuple(by_reason({f"{p.framework_version} {p.case}": p.reason for p in predictions if p.reason})),
    )


def _rules(framework: str, predictions: Sequence[Planned]) -> str:
    """What a simulation of another release is made of; a plan of XLA's is the release's own."""
    notes = dict.fromkeys(note for p in predictions for note in p.notes) if framework == "torch" else ()
    return "".join(f" {note}" for note in notes)


def _cell(planned: Planned | None) -> str:
    return "-" if planned is None else mib(planned.peak_bytes) if planned.peak_bytes else planned.outcome


def _change(peaks: Mapping[tuple[str, str], Planned], case: str, versions: Sequence[str]) -> str:
    """Not between a simulation with cuDNN's workspaces and one without."""
    told = [one for v in versions if (one := peaks.get((case, v))) and one.peak_bytes]
    alike = len({"cudnn" in one.origin.versions for one in told}) == 1
    sizes = [one.peak_bytes for one in told if one.peak_bytes]
    return f"{sizes[-1] / sizes[0] - 1:+.2%}" if alike and len(sizes) > 1 else "-"
