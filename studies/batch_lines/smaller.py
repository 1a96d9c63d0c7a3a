"""How well peaks at larger batches predict that of a smaller one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import pandas as pd

from framebench.analysis.frames import Row
from framebench.analysis.lower_bound import get_micro_batch
from framebench.analysis.peaks import find_fault, predict_peak, read_evidence
from framebench.analysis.rendering import ESSENTIAL, Table, TableColumn
from framebench.analysis.results import NoRecords, Results
from framebench.models.spec import list_workloads
from framebench.records.record_base import parse_case

SCENARIOS = ("train", "eval")
COLUMNS = {
    "samples": TableColumn("samples in the model", priority=ESSENTIAL),
    "workload": TableColumn("workload"),
    "framework": TableColumn("framework"),
    "cases": TableColumn("predictions"),
    "worst": TableColumn("largest measured / upper end", ".2f", priority=ESSENTIAL),
    "worst_case": TableColumn("of"),
}


class SmallerBatch(NamedTuple):
    """A measured peak and its prediction from larger batches alone."""

    case: str
    workload: str
    framework: str
    samples: str  # in the model at once: "1", or "2 or more"
    excess: float  # the measured peak over the upper end of the prediction


def predict_smaller_batches(rows: Sequence[Row]) -> Iterator[SmallerBatch]:
    """Yield each measured batch that has larger ones, predicted from these.

    `rows` are of one machine, workload and scenario. Those of a line have all but the batch in
    common.
    """
    lines: dict[tuple[object, ...], dict[int, Row]] = {}
    for row in rows:
        if find_fault(row) is None and row.ranks == 1:
            key = (
                row.framework,
                row.framework_version,
                row.strategy,
                row.size,
                row.step_instrument,
            )
            lines.setdefault(key, {})[row.batch] = row
    for by_batch in lines.values():
        batches = sorted(by_batch)
        for place, batch in enumerate(batches[:-1]):
            row = by_batch[batch]
            larger = [by_batch[other] for other in batches[place + 1 :]]
            case = parse_case(row.case)
            peak = predict_peak(larger, case)
            yield SmallerBatch(
                row.case,
                row.workload,
                row.framework,
                "1" if get_micro_batch(case) == 1 else "2 or more",
                (row.step_bytes or 0) / max(peak.value, peak.high or 0),
            )


def predict_of_all_machines(results: Results) -> Iterator[SmallerBatch]:
    """Yield the smaller batches of every machine that has records."""
    for machine, workload, scenario in product(results.machines, list_workloads(), SCENARIOS):
        try:
            rows, _blocks = read_evidence(results.root, machine, workload, scenario)
        except NoRecords:
            continue
        yield from predict_smaller_batches(rows)


def make_table(predictions: Sequence[SmallerBatch]) -> Table:
    """Return how far measured peaks exceed the upper ends of predictions from larger batches."""
    lines = []
    of_predictions = pd.DataFrame(predictions, columns=SmallerBatch._fields)
    for key, group in of_predictions.groupby(["samples", "workload", "framework"]):
        worst = group.sort_values("excess").iloc[-1]
        lines.append((*key, len(group), worst["excess"], worst["case"]))
    return Table(
        "Prediction of smaller batches",
        "Each measured batch that has larger ones on the same machine, predicted from these alone. "
        "Upper end: of the interval that advise judges by. Samples in the model: the batch, or "
        "a micro-batch of it.",
        pd.DataFrame(lines, columns=list(COLUMNS)),
        COLUMNS,
        left=3,
    )
