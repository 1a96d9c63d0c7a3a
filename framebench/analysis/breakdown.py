"""Where a measured peak goes: what the case cannot do without (`framebench.analysis.lower_bound`),
and the rest.
"""

from __future__ import annotations

from functools import cache

import pandas as pd

from framebench.analysis.lower_bound import LowerBound, compute_lower_bound
from framebench.models import spec
from framebench.records.record import parse_case
from framebench.suite.hypothetical import parse_any_batch

EXPLAINED = "docs/reading.md#where-the-peak-goes"
PARTS = ("parameters", "buffers", "optimizer", "inputs", "gradients", "activations")


def split_peaks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a peak, with a column of bytes for each part, and `lower_bound`, `rest`
    and `peak_over_bound`.

    The parts are those of the moment when the least that is needed is most: often the end of the
    forward pass, when there are all activations and no gradient. `rest` is everything else in the
    measured peak: workspaces, gradients of activations, fragmentation, and what the framework keeps
    beyond the least. Rows of workloads that declare no `layers` are left out.
    """
    with_layers = [name for name in spec.list_workloads() if spec.load_workload(name).layers]
    is_known = pd.Series(
        [parse_case(case).is_known for case in table["case"]], table.index, dtype=bool
    )
    has_peak = (table["status"] == "ok") & table["step_bytes"].notna()
    measured = table[is_known & table["workload"].isin(with_layers) & has_peak].reset_index(
        drop=True
    )
    bounds = [find_lower_bound(case) for case in measured["case"]]
    for part in PARTS:
        measured[part] = [getattr(bound, part) for bound in bounds]
    measured["lower_bound"] = [float(bound.total) for bound in bounds]
    measured["rest"] = measured["step_bytes"] - measured["lower_bound"]
    measured["peak_over_bound"] = measured["step_bytes"] / measured["lower_bound"]
    return measured


@cache  # many records are of few cases
def find_lower_bound(case_id: str) -> LowerBound:
    """Return the lower bound of the case with this id. Raises UnknownCase."""
    return compute_lower_bound(parse_any_batch(case_id))
