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
    "kept_bytes": TableColumn("kept", ".1f", 1 / MIB, unit="MiB", priority=DETAIL),
    "step_s": TableColumn("step", ".1f", 1e3, unit="ms", priority=ESSENTIAL),
}
CAPTION = (
    "Each line is a fresh process. Step times are those of an allocator that returns memory at "
    "once; speed and correctness of the strategy are what `framebench run` measures and verifies: "
    "here the loss was only seen to be finite. kept: what the framework took next to tensors and "
    "did not give back, such as workspaces and generated kernels."
)


def make_table(fit: Fit) -> Table:
    """Return the table of every probe by batch, with the answer below."""
    workload, framework, scenario, strategy, _, size = fit.case.split("/")
    rows = []
    for probe in sorted(fit.probes, key=lambda probe: probe.batch):
        rows.append(describe_probe(probe))
    if fit.confirmation:
        row = describe_probe(fit.confirmation)
        rows.append(row | {"outcome": f"{row['outcome']} without a limit"})
    title = (
        f"{framework}: {workload} {scenario} {strategy}, size {size}, within "
        f"{fit.budget_bytes / MIB:.1f} MiB"
    )
    data = pd.DataFrame(rows, columns=list(COLUMNS))
    return Table(title, CAPTION, data, COLUMNS, left=3, notes=(fit.answer,))


def describe_probe(probe: Probe) -> dict[str, object]:
    """Return the values of a probe by column, in bytes and seconds."""
    outcome = "out of memory" if probe.outcome == "memory" else probe.outcome
    derived = {"outcome": outcome, "peak": probe.peak, "instrument": probe.instrument}
    return probe.model_dump() | derived
