"""Releases of JAX by what their compilers plan for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from framebench.analysis.comparison import Comparison, mib
from framebench.engine.environments import Say
from framebench.features.devices.catalog import Device, find
from framebench.features.devices.plans.planned import Planned, code_of
from framebench.features.devices.plans.planning import planned_for
from framebench.features.devices.tables.table import by_reason


def on_device(selectors: Sequence[str], name: str, versions: Sequence[str], results: Path, say: Say) -> Comparison:
    """What these releases plan for the device, made now unless it is there. Raises UnknownDevice, UnknownCase."""
    predictions = [one for version in versions for one in planned_for(selectors, name, results, say, version)]
    return _table(predictions, find(name))


def of_releases(predictions: Sequence[Planned], device: Device) -> Comparison | None:
    """Plans of the same cases by releases of JAX; None if no case was planned by two of them."""
    ours = [p for p in predictions if p.framework == "jax" and p.device == device.name]
    count = Counter(p.case for p in ours)
    several = [p for p in ours if count[p.case] > 1]
    return _table(several, device) if several else None


def _table(predictions: Sequence[Planned], device: Device) -> Comparison:
    peaks = {(p.case, p.framework_version): p for p in predictions}
    versions = sorted({version for _, version in peaks}, key=Version)
    cases = sorted({case for case, _ in peaks})
    rows = tuple((case, *(_cell(peaks.get((case, v))) for v in versions), _change(peaks, case, versions)) for case in cases)
    return Comparison.of_text(
        f"Releases of JAX by what they plan for one {device.title}",
        "Planned by each release's own compiler, in MiB, not measured. Change: the newest that has a plan against the oldest. "
        f"{code_of(p.origin.commit for p in predictions)}",
        ("case", *versions, "change"),
        rows,
        left=1,
        notes=tuple(by_reason({f"{p.framework_version} {p.case}": p.reason for p in predictions if p.reason})),
    )


def _cell(planned: Planned | None) -> str:
    return "-" if planned is None else mib(planned.peak_bytes) if planned.peak_bytes else planned.outcome


def _change(peaks: Mapping[tuple[str, str], Planned], case: str, versions: Sequence[str]) -> str:
    found = [size for v in versions if (told := peaks.get((case, v))) and (size := told.peak_bytes)]
    return f"{found[-1] / found[0] - 1:+.2%}" if len(found) > 1 else "-"
