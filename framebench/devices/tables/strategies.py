"""What strategies are predicted to save on a device: a table for each workload and scenario at its base batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned, code_of, workspaces_of
from framebench.devices.tables.table import share
from framebench.records.pins import pinned_version
from framebench.strategies.registry import names
from framebench.suite.case import Case

FEWEST = 3  # strategies that make a table
HEAD = ("strategy", "PyTorch allocated", "x fp32", "reserved", "JAX planned", "x fp32")
TWO = (
    "PyTorch: the most in use in a simulated step, and what the allocator has taken from the card by then. JAX: XLA's own "
    "plan. They count different things: compare within a column. "
)
Peaks = Mapping[tuple[str, str], Planned]  # by framework and strategy


def tables(predictions: Sequence[Planned], device: Device) -> Iterator[Comparison]:
    """Of the pinned releases, where enough strategies were predicted."""
    groups: dict[tuple[str, str, str, int], dict[tuple[str, str], Planned]] = {}
    for planned in predictions:
        case = Case.of(planned.case)
        pinned = planned.framework_version == pinned_version(case.framework)
        if pinned and planned.device == device.name and case.ranks == 1 and case.batch == case.spec.preset(case.size).base:
            group = groups.setdefault((case.workload, case.scenario, case.size, case.batch), {})
            group[case.framework, case.strategy] = planned
    for (workload, scenario, size, batch), peaks in sorted(groups.items()):
        told = {strategy for (_, strategy), planned in peaks.items() if planned.outcome in ("planned", "refused")}
        known = [name for name in names(scenario) if name in told]
        if len(known) >= FEWEST:
            what = f"{workload} {scenario}, batch {batch}, size {size}, on one {device.title}"
            yield _table(f"What strategies save: {what}", peaks, known, device)


def _table(title: str, peaks: Peaks, strategies: Sequence[str], device: Device) -> Comparison:
    baseline = Case.of(next(iter(peaks.values())).case).stage.baseline
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            name,
            *_cells(peaks, "torch", name, baseline, device),
            mib(reserved.peak_bytes) if (reserved := peaks.get(("torch", name))) else "-",
            *_cells(peaks, "jax", name, baseline, device),
        )
        for name in strategies
    )
    read = TWO if device.kind == "gpu" else "XLA's own plan. "
    workspaces = f"{workspaces_of(peaks.values())} " if device.kind == "gpu" else ""
    caption = (
        f"MiB, of {mib(device.memory_bytes)}. Predicted, not measured. {read}x {baseline} = over the same column's {baseline}. "
        f"{workspaces}{code_of(p.origin.commit for p in peaks.values())}"
    )
    head = tuple(part.replace("fp32", baseline) for part in HEAD)
    if device.kind == "tpu":  # for which PyTorch is not simulated
        head, rows = (head[0], *head[4:]), tuple((row[0], *row[4:]) for row in rows)
    return Comparison.of_text(title, caption, head, rows, left=1, notes=tuple(_reasons(peaks)))


def _cells(peaks: Peaks, framework: str, strategy: str, baseline: str, device: Device) -> tuple[str, str]:
    planned = peaks.get((framework, strategy))
    size, base = (_bytes(peaks.get((framework, name))) for name in (strategy, baseline))
    if size is None:
        return (share(planned, device) if planned and planned.outcome == "refused" else "-"), "-"
    text = mib(size) if size <= device.memory_bytes else f"does not fit: needs {mib(size)} MiB"
    return text, f"{size / base:.2f}" if base else "-"


def _bytes(planned: Planned | None) -> int | None:
    """Of a simulation what was in use at once, of a plan all of it."""
    return planned.parts.get("allocated", planned.peak_bytes) if planned else None


def _reasons(peaks: Peaks) -> Iterator[str]:
    """Why there is no prediction of what the framework has, each reason once."""
    reasons: dict[str, list[str]] = {}
    for (framework, strategy), planned in sorted(peaks.items()):
        if planned.outcome in ("not planned", "failed") and Case.of(planned.case).support.supported:
            reasons.setdefault(planned.reason or planned.outcome, []).append(f"{framework} {strategy}")
    for reason, those in reasons.items():
        yield f"not predicted: {', '.join(those)}: {reason}"
