"""Split measured peaks into the parts of the lower bound (`analysis.lower_bound`) and the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.rendering import Table, read_columns
from framebench.analysis.tables import QUESTION, describe_conditions, list_instruments
from framebench.models import spec
from framebench.records.record_base import parse_case
from framebench.suite.hypothetical import parse_any_batch

EXPLAINED = "docs/reading.md#where-the-peak-goes"
PARTS = ("parameters", "buffers", "optimizer", "inputs", "gradients", "activations")
SHOWN = read_columns("parts")


def split_peaks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a peak, with the bytes of each of PARTS, `lower_bound` and `rest`.

    The parts are those of the moment when the lower bound is largest: often the end of the
    forward pass, when there are all activations and no gradient. `rest` is everything else in the
    measured peak: workspaces, gradients of activations, fragmentation, and what the framework keeps
    beyond the least. `peak_over_bound` is the measured peak over the lower bound. Rows of workloads
    that declare no `layers` are left out.
    """
    has_peak = (table["status"] == "ok") & table["step_bytes"].notna()
    has_bound = table["case"].map(declares_layers).astype(bool)
    split = table[has_peak & has_bound].reset_index(drop=True)
    bounds = [vars(compute_lower_bound(parse_any_batch(case))) for case in split["case"]]
    parts = pd.DataFrame(bounds, columns=list(PARTS))
    lower_bound = parts.sum(axis=1).astype(float)
    return split.join(parts).assign(
        lower_bound=lower_bound,
        rest=split["step_bytes"] - lower_bound,
        peak_over_bound=split["step_bytes"] / lower_bound,
    )


def declares_layers(case_id: str) -> bool:
    """Return whether this version has the case, and its workload declares layers."""
    case = parse_case(case_id)
    if not case.is_known or case.workload not in spec.list_workloads():  # such as a user's model
        return False
    return case.workload_spec.layers is not None


def make_part_tables(table: pd.DataFrame) -> Iterator[Table]:
    """Yield the parts of the peaks of each machine, workload, size, scenario and batch."""
    for _, group in split_peaks(table).groupby(QUESTION):
        first = group.iloc[0]
        yield Table(
            f"Where the peak goes: {first['workload']} {first['scenario']}, batch "
            f"{first['batch']}, size {first['size']}",
            f"MiB, peaks by {list_instruments(group, 'step_instrument')}. The parts sum to the "
            f"lower bound; rest: the measured peak less the lower bound ({EXPLAINED}). "
            f"{describe_conditions(group)}",
            group,
            SHOWN,
            machine=first["machine"],
            cases=tuple(group["case"]),
        )
