"""The table of a search for the largest batch."""

from __future__ import annotations

import pandas as pd

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.records.search import MIB, Fit, Probe

COLUMNS = {
    "batch": TableColumn("batch"),
    "outcome": TableColumn("outcome"),
    "instrument": TableColumn("instrument"),
    "peak": TableColumn("peak", ".1f", 1 / MIB, unit="MiB", priority=ESSENTIAL),
    "kept": TableColumn("kept", ".1f", 1 / MIB, unit="MiB", priority=DETAIL),
    "step": TableColumn("step", ".1f", 1e3, unit="ms", priority=ESSENTIAL),
}
CAPTION = (
    "Each line is a fresh process. Step times are those of an allocator that returns memory at "
    "once; speed and correctness of "
    "the strategy are what `framebench run` measures and verifies: here the loss was only seen to "
    "be finite. "
    "kept: what the framework took beside tensors and did not give back, such as workspaces and "
    "generated kernels."
)
OUTCOMES = {"fits": "fits", "memory": "out of memory", "failed": "failed"}
OUTCOMES_WITHOUT_LIMIT = {outcome: f"without a limit: {text}" for outcome, text in OUTCOMES.items()}
OUTCOMES_WITHOUT_LIMIT["fits"] = "without a limit: finished"


def make_table(fit: Fit) -> Table:
    """Return the table of every probe by batch, with the answer below."""
    workload, framework, scenario, strategy, _, size = fit.case.split("/")
    rows = [
        make_row(probe, OUTCOMES) for probe in sorted(fit.probes, key=lambda probe: probe.batch)
    ]
    if fit.confirmation:
        rows.append(make_row(fit.confirmation, OUTCOMES_WITHOUT_LIMIT))
    title = (
        f"{framework}: {workload} {scenario} {strategy}, size {size}, within "
        f"{fit.budget_bytes / MIB:.1f} MiB"
    )
    data = pd.DataFrame(rows, columns=list(COLUMNS))
    return Table(title, CAPTION, data, COLUMNS, left=3, notes=(fit.answer,))


def make_row(probe: Probe, outcomes: dict[str, str]) -> dict[str, object]:
    """Return the values of a probe by column, in bytes and seconds."""
    return {
        "batch": probe.batch,
        "outcome": outcomes[probe.outcome],
        "instrument": probe.instrument,
        "peak": probe.peak,
        "kept": probe.kept_bytes,
        "step": probe.step_s,
    }
