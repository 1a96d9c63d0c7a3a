"""Make tables of what strategies are predicted to save on a device, and of their largest batches.

There is one for each workload, scenario and size, with the predictions of the pinned releases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device, find
from framebench.devices.fit.fitting import FitAssessment
from framebench.devices.needs import find_context_bytes
from framebench.devices.plans.planned import Planned, describe_code, describe_workspaces
from framebench.devices.tables.errors import describe_errors
from framebench.devices.tables.table import (
    group_by_reason,
    group_pinned,
)
from framebench.strategies.registry import list_strategies
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

FEWEST_STRATEGIES = 3  # that make a table
FEWEST_BATCHES = 3  # of a strategy that make a row
# the GPUs of the columns with largest batches
GPUS = {"24 GB": "l4-24gb", "40 GB": "a100-40gb", "80 GB": "h100-80gb"}
MEMORIES = [find(name).memory_bytes for name in GPUS.values()]
TWO_SOURCES = (
    "PyTorch: the most in use in a simulated step, and what the allocator has taken from the GPU "
    "by then. JAX: XLA's own plan. They count different things: compare within a column. "
)
Peaks = Mapping[tuple[str, str], Planned]  # by framework and strategy


def tabulate_savings(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield a table of each group at its base batch, where enough strategies were predicted."""
    for group in group_pinned(predictions, device).values():
        table = make_savings_table(group, device)
        if table is not None:
            yield table


def make_savings_table(group: Sequence[tuple[Case, Planned]], device: Device) -> Table | None:
    """Return the table of one workload, scenario and size, or None with too few strategies."""
    first, _ = group[0]
    batch = first.workload_spec.preset(first.size).base
    of_batch = [(case, planned) for case, planned in group if case.batch == batch]
    peaks = {(case.framework, case.strategy): planned for case, planned in of_batch}
    answered = {strategy for (_, strategy), planned in peaks.items() if planned.has_answer}
    baseline = first.scenario_spec.baseline
    rows = []
    for strategy in list_strategies(first.scenario):
        if strategy in answered:
            rows.append(make_row(peaks, strategy, baseline, device))
    if len(rows) < FEWEST_STRATEGIES:
        return None
    ratio_title = f"x {baseline}"
    code = describe_code(planned.origin.commit for planned in peaks.values())
    return Table.of_text(
        f"What strategies save: {first.workload} {first.scenario}, batch {batch}, size "
        f"{first.size}, on one {device.title}",
        f"MiB, of {format_mib(device.memory_bytes)}. Predicted, not measured. "
        f"{describe_sources(peaks, device)}{ratio_title}: ratio to the {baseline} row of the same "
        f"column. {code}",
        make_head(ratio_title, device),
        rows,
        left=1,
        notes=tuple(group_by_reason(explain_missing(of_batch))),
    )


def explain_missing(group: Sequence[tuple[Case, Planned]]) -> dict[str, str]:
    """Return why a case that its framework supports has no answer, by `framework strategy`."""
    reasons = {}
    for case, planned in group:
        if not planned.has_answer and case.support.supported:
            reasons[f"{case.framework} {case.strategy}"] = planned.reason or planned.outcome
    return dict(sorted(reasons.items()))


def describe_sources(peaks: Peaks, device: Device) -> str:
    """Return in sentences what made the numbers of a table: PyTorch is not simulated for TPUs."""
    if device.kind != "gpu":
        return "XLA's own plan. "
    return f"{TWO_SOURCES}{describe_workspaces(peaks.values())}"


def make_head(ratio_title: str, device: Device) -> tuple[str, ...]:
    """Return the titles of the columns that `make_row` fills."""
    if device.kind != "gpu":
        return ("strategy", "JAX planned", ratio_title)
    return ("strategy", "PyTorch allocated", ratio_title, "reserved", "JAX planned", ratio_title)


def make_row(peaks: Peaks, strategy: str, baseline: str, device: Device) -> list[str]:
    """Return the cells of a strategy. PyTorch is not simulated for TPUs, and has none there."""
    cells = [strategy]
    if device.kind == "gpu":
        simulated = peaks.get(("torch", strategy))
        reserved = format_mib(simulated.peak_bytes) if simulated else "-"
        cells += [*make_cells(peaks, "torch", strategy, baseline, device), reserved]
    return [*cells, *make_cells(peaks, "jax", strategy, baseline, device)]


def make_cells(
    peaks: Peaks, framework: str, strategy: str, baseline: str, device: Device
) -> tuple[str, str]:
    """Return a framework's peak of a strategy, and how it is to the baseline's."""
    planned = peaks.get((framework, strategy))
    size = planned.used_bytes if planned else None
    if planned and planned.outcome == "refused":
        would_take = f": would take {format_mib(planned.needs_bytes)} MiB"
        return f"does not fit{would_take if planned.needs_bytes else ''}", "-"
    if size is None:
        return "-", "-"
    text = format_mib(size)
    if size > device.memory_bytes:
        text = f"does not fit: would take {text} MiB"
    base = peaks.get((framework, baseline))
    return text, f"{size / base.used_bytes:.2f}" if base and base.used_bytes else "-"


def tabulate_batches(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield a table of the largest batches that fit in three GPUs' memory, among those planned.

    Args:
        predictions: Any.
        device: Whose kernels were planned.
    """
    for (workload, scenario, size), group in group_pinned(predictions, device).items():
        # by framework and strategy, then by batch
        assessments: defaultdict[tuple[str, str], dict[int, FitAssessment]] = defaultdict(dict)
        for case, planned in group:
            if planned.has_answer:
                assessment = FitAssessment(case, planned, device)
                assessments[case.framework, case.strategy][case.batch] = assessment
        rows = []
        shown = []
        for framework in FRAMEWORKS:
            for strategy in list_strategies(scenario):
                by_batch = assessments[framework, strategy]
                if len(by_batch) >= FEWEST_BATCHES:
                    largest = [find_largest(by_batch, memory) for memory in MEMORIES]
                    batches = ", ".join(map(str, sorted(by_batch)))
                    rows.append((framework, strategy, batches, *largest))
                    shown += [assessment.planned for assessment in by_batch.values()]
        if rows:
            title = (
                f"Largest batch that fits: {workload} {scenario}, size {size}, as on one "
                f"{device.title}"
            )
            head = ("framework", "strategy", "batches planned", *GPUS)
            yield Table.of_text(title, explain_batches(shown, device), head, rows, left=3)


def explain_batches(shown: Sequence[Planned], device: Device) -> str:
    """Return the caption of a table of largest batches."""
    least, most = find_context_bytes(device)
    memories = ", ".join(f"{format_mib(memory)} MiB" for memory in MEMORIES)
    return (
        "Predicted, not measured. The largest of the batches planned that fits, at the upper end "
        f"of the error, in the memory that such GPUs leave a program ({memories}), with the "
        f"kernels of one {device.title}. The answer allows for a CUDA context of up to "
        f"{format_mib(most)} MiB ({format_mib(least)} at the least), and for the errors that "
        f"predictions had ({describe_errors(shown)}). '... or more': no larger one was planned. "
        f"{describe_workspaces(shown)}{describe_code(planned.origin.commit for planned in shown)}"
    )


def find_largest(assessments: Mapping[int, FitAssessment], memory: int) -> str:
    """Return the largest of these batches that fits at the upper end of the error."""
    fitting = [
        batch
        for batch, assessment in assessments.items()
        if replace(assessment, budget=memory).fits
    ]
    if not fitting:
        return f"below {min(assessments)}"
    largest = max(fitting)
    return f"{largest}" if largest < max(assessments) else f"{largest} or more"
