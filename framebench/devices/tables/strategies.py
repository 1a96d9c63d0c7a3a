"""What strategies are predicted to save on a device: a table for each workload and scenario at its
base batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device
from framebench.devices.plans.planned import Planned, code_of, workspaces_of
from framebench.devices.tables.table import describe_share, group_by_reason, group_pinned
from framebench.strategies.registry import list_strategies
from framebench.suite.case import Case

FEWEST = 3  # strategies that make a table
TWO = (
    "PyTorch: the most in use in a simulated step, and what the allocator has taken from the GPU "
    "by then. JAX: XLA's own "
    "plan. They count different things: compare within a column. "
)
Peaks = Mapping[tuple[str, str], Planned]  # by framework and strategy


def tables(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield tables of the pinned releases, where enough strategies were predicted."""
    for (workload, scenario, size), group in group_pinned(predictions, device).items():
        batch = group[0][0].spec.preset(size).base
        peaks = {
            (case.framework, case.strategy): planned
            for case, planned in group
            if case.batch == batch
        }
        answered = {strategy for (_, strategy), planned in peaks.items() if planned.has_answer}
        strategies = [name for name in list_strategies(scenario) if name in answered]
        if len(strategies) >= FEWEST:
            what = f"{workload} {scenario}, batch {batch}, size {size}, on one {device.title}"
            baseline = group[0][0].stage.baseline
            yield make_table(f"What strategies save: {what}", peaks, strategies, baseline, device)


def make_table(
    title: str, peaks: Peaks, strategies: Sequence[str], baseline: str, device: Device
) -> Table:
    """Return a row for each strategy, and columns for each framework that is planned for the
    device.
    """
    jax_head = ["JAX planned", f"x {baseline}"]
    reasons = {}
    for (framework, strategy), planned in sorted(peaks.items()):
        if not planned.has_answer and Case.from_id(planned.case).support.supported:
            reasons[f"{framework} {strategy}"] = planned.reason or planned.outcome
    rows: list[tuple[str, ...]] = []
    if device.kind == "tpu":  # for which PyTorch is not simulated
        head = ["strategy", *jax_head]
        read = "XLA's own plan. "
        for strategy in strategies:
            rows.append((strategy, *make_cells(peaks, "jax", strategy, baseline, device)))
    else:
        head = ["strategy", "PyTorch allocated", f"x {baseline}", "reserved", *jax_head]
        read = TWO
        for strategy in strategies:
            torch_cells = make_cells(peaks, "torch", strategy, baseline, device)
            simulated = peaks.get(("torch", strategy))
            reserved = format_mib(simulated.peak_bytes) if simulated else "-"
            rows.append(
                (
                    strategy,
                    *torch_cells,
                    reserved,
                    *make_cells(peaks, "jax", strategy, baseline, device),
                )
            )
    caption = (
        f"MiB, of {format_mib(device.memory_bytes)}. Predicted, not measured. {read}x {baseline} = "
        f"over the same column's {baseline}. "
    )
    if device.kind == "gpu":
        caption += f"{workspaces_of(peaks.values())} "
    caption += code_of(planned.origin.commit for planned in peaks.values())
    return Table.of_text(title, caption, head, rows, left=1, notes=tuple(group_by_reason(reasons)))


def make_cells(
    peaks: Peaks, framework: str, strategy: str, baseline: str, device: Device
) -> tuple[str, str]:
    """Return a framework's peak of a strategy, and how it is to the baseline's."""
    planned = peaks.get((framework, strategy))
    if planned is None:
        return "-", "-"
    size = planned.used_bytes
    if size is None:
        return describe_share(planned, device) if planned.outcome == "refused" else "-", "-"
    text = format_mib(size)
    if size > device.memory_bytes:
        text = f"does not fit: would take {text} MiB"
    base = peaks.get((framework, baseline))
    return text, f"{size / base.used_bytes:.2f}" if base and base.used_bytes else "-"
