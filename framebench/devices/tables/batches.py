"""The largest batch that fits in three GPUs' memory, among those that were planned: a table for
each workload and size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.catalog import Device, find
from framebench.devices.fit.fitting import FitAssessment
from framebench.devices.needs import context_of
from framebench.devices.plans.planned import Planned, code_of, workspaces_of
from framebench.devices.tables.table import describe_errors, group_pinned
from framebench.strategies.registry import list_strategies
from framebench.strategies.strategy import FRAMEWORKS

# whose memory the columns have
GPUS = {"24 GB": "l4-24gb", "40 GB": "a100-40gb", "80 GB": "h100-80gb"}
FEWEST = 3  # batches of a strategy that make a row
HEAD = ("framework", "strategy", "batches planned", *GPUS)


def tables(predictions: Sequence[Planned], device: Device) -> Iterator[Table]:
    """Yield tables of the pinned releases.

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
                by_batch = assessments.get((framework, strategy), {})
                if len(by_batch) >= FEWEST:
                    batches = ", ".join(map(str, sorted(by_batch)))
                    rows.append(
                        (
                            framework,
                            strategy,
                            batches,
                            *(find_largest(by_batch, name) for name in GPUS.values()),
                        )
                    )
                    shown += [assessment.planned for assessment in by_batch.values()]
        if rows:
            title = (
                f"Largest batch that fits: {workload} {scenario}, size {size}, as on one "
                f"{device.title}"
            )
            yield Table.of_text(title, write_caption(shown, device), HEAD, rows, left=3)


def write_caption(predictions: Sequence[Planned], device: Device) -> str:
    """Return what the answers allow for, and what made the predictions."""
    memory = ", ".join(f"{format_mib(find(name).memory_bytes)} MiB" for name in GPUS.values())
    allowed = describe_errors(predictions)
    least, most = context_of(device)
    return (
        "Predicted, not measured. The largest of the batches planned that fits for certain in "
        "the memory that such GPUs "
        f"leave a program ({memory}), with the kernels of one {device.title}. The answer allows "
        "for a CUDA context of up to "
        f"{format_mib(most)} MiB ({format_mib(least)} at the least), and for the errors that "
        f"predictions had ({allowed}). '... or more': no larger "
        f"one was planned. {workspaces_of(predictions)} "
        f"{code_of(planned.origin.commit for planned in predictions)}"
    )


def find_largest(assessments: Mapping[int, FitAssessment], gpu: str) -> str:
    """Return the largest of these batches that fits for certain in a GPU's memory."""
    fitting = []
    for batch, assessment in assessments.items():
        if replace(assessment, budget=find(gpu).memory_bytes).fits:
            fitting.append(batch)
    if not fitting:
        return f"below {min(assessments)}"
    return f"{max(fitting)}" if max(fitting) < max(assessments) else f"{max(fitting)} or more"
