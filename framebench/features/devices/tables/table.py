"""Tables of devices, and of what was planned for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from framebench.analysis.comparison import Comparison, mib
from framebench.features.devices.catalog import DEVICES, GIB, Device
from framebench.features.devices.plans.planned import Planned
from framebench.suite.case import Case


def catalog() -> Comparison:
    """The devices and what is assumed of them."""
    rows = tuple(
        (d.name, d.title, f"{d.gib:,.2f}", d.capability or d.topology, str(d.cores), d.source) for d in DEVICES
    )  # fmt: skip
    return Comparison.of_text(
        "Devices that cases are planned for",
        "Memory is what a program can have. No card needs to be here: `framebench predict CASE --device NAME`.",
        ("name", "device", "GiB", "capability", "cores", "figures from"),
        rows,
        left=2,
    )


FINE = ",.2f"
NAMES = {"compiler.plan": "planned", "allocator.simulated": "simulated"}


def of_cases(predictions: Sequence[Planned], device: Device) -> Comparison:
    """What each case needs on the device. What no prediction holds is said once, below."""
    ranks = any(Case.of(p.case).ranks > 1 for p in predictions)
    told = [p for p in predictions if p.outcome in ("planned", "refused")]
    rows = tuple((p.case, mib(p.peak_bytes), share(p, device), NAMES.get(p.source or "", "-")) for p in told)
    missing = dict.fromkeys((f"{p.framework} {p.framework_version}", p.not_held) for p in predictions if p.not_held)
    notes = tuple(f"not in the peaks of {name}: {'; '.join(held)}" for name, held in missing)
    notes += tuple(f"{p.case}: {note}" for p in predictions for note in p.notes)
    notes += tuple(by_reason({p.case: p.reason or p.outcome for p in predictions if p not in told}))
    return Comparison.of_text(
        f"What cases need on one {device.title}",
        f"Not measured. It has {device.gib:,.2f} GiB ({device.source})." + " Of a case over ranks: one of its devices." * ranks,
        ("case", "peak MiB", "of memory", "told by"),
        rows,
        left=1,
        notes=notes,
    )


def by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    """What was not predicted, and why: names with the same reason on one line."""
    for why in dict.fromkeys(reasons.values()):
        yield f"not predicted: {', '.join(name for name, reason in reasons.items() if reason == why)}: {why}"


def share(planned: Planned, device: Device) -> str:
    """Of the device's memory; what is more does not fit."""
    if planned.outcome == "refused":
        needs = f": needs {planned.needs_bytes / GIB:,.1f} GiB" if planned.needs_bytes else ""
        return f"does not fit{needs}"
    if planned.peak_bytes is None:
        return "-"
    of = planned.peak_bytes / device.memory_bytes
    return f"{of:.1%}" if of <= 1 else f"{of:.1%}: does not fit"


def parts(planned: Planned, device: Device) -> Comparison:
    """What the peak of one case is made of, and the largest buffers."""
    whole = tuple((name, "", "", "", mib(size, FINE)) for name, size in planned.parts.items() if size)
    held = tuple(("", b.line, b.shape, str(b.count), mib(b.bytes, FINE)) for b in planned.largest)
    return Comparison.of_text(
        f"What {planned.case} is made of on one {device.title}",
        f"Not measured: {planned.source}, {planned.compiler or planned.framework_version}. The parts, then what most of it is "
        "for. What is aliased is written over, and counts once. Of buffers that share a place the largest is named.",
        ("part", "asked for by", "shape", "buffers", "MiB"),
        whole + held,
        left=3,
    )


def of_releases(predictions: Sequence[Planned], device: Device) -> Comparison | None:
    """Plans of the same cases by releases of JAX; None if no case was planned by two of them."""
    peaks = {(p.case, p.framework_version): p for p in predictions if p.framework == "jax" and p.device == device.name}
    versions = sorted({version for _, version in peaks}, key=Version)
    cases = [case for case in dict.fromkeys(case for case, _ in peaks) if sum((case, v) in peaks for v in versions) > 1]
    if not cases:
        return None
    rows = tuple((case, *(_cell(peaks.get((case, v))) for v in versions), _change(peaks, case, versions)) for case in cases)
    return Comparison.of_text(
        f"Releases of JAX by what they plan for one {device.title}",
        "Planned by each release's own compiler, in MiB, not measured. Change: the newest that has a plan against the oldest.",
        ("case", *versions, "change"),
        rows,
        left=1,
    )


def _cell(planned: Planned | None) -> str:
    return "-" if planned is None else mib(planned.peak_bytes) if planned.peak_bytes else planned.outcome


def _change(peaks: Mapping[tuple[str, str], Planned], case: str, versions: Sequence[str]) -> str:
    found = [size for v in versions if (told := peaks.get((case, v))) and (size := told.peak_bytes)]
    return f"{found[-1] / found[0] - 1:+.2%}" if len(found) > 1 else "-"
