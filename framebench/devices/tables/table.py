"""Tables of devices, and of what was planned for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import DEVICES, Device
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case


def catalog(devices: Sequence[Device] = DEVICES) -> Comparison:
    """The devices and what is assumed of them."""
    rows = tuple(
        (d.name, d.title, f"{d.gib:,.2f}", d.capability or d.topology, str(d.cores), d.source) for d in devices
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
        needs = f": needs {mib(planned.needs_bytes)} MiB" if planned.needs_bytes else ""
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
