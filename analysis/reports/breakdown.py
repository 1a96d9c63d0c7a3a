"""Where a measured peak goes: what the case cannot do without (`analysis.lower_bound`), and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from analysis.lower_bound import Floor, floor
from analysis.tables import Comparison, conditions, groups, in_order, lines_of, mib, number
from framebench.suite.hypothetical import named

if TYPE_CHECKING:
    import pandas as pd

# what keeps bytes on disk or in host memory for a while may stay below the floor, which counts them all
ELSEWHERE = {"mem_limit", "offload"}
PARTS = ("parameters", "buffers", "optimizer", "inputs", "gradients", "activations")


def breakdown(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with a peak, with a column of bytes for each part, and `floor`, `rest` and `peak_over_floor`.

    The parts are those of the moment when the least that is needed is most: often the end of the forward pass, when there are
    all activations and no gradient. `rest` is everything else in the measured peak: workspaces, gradients of activations,
    fragmentation, and what the framework keeps beyond the least.
    """
    here = table["strategy"].map(lambda strategy: ELSEWHERE.isdisjoint(strategy.split("+"))).astype(bool)
    measured = table[(table["status"] == "ok") & table["peak_bytes"].notna() & here].reset_index(drop=True)
    floors = [floor_of(case) for case in measured["case"]]
    for part in PARTS:
        measured[part] = [getattr(f, part) for f in floors]
    measured["floor"] = [float(f.total) for f in floors]
    measured["rest"] = measured["peak_bytes"] - measured["floor"]
    measured["peak_over_floor"] = measured["peak_bytes"] / measured["floor"]
    return measured


@cache  # many records are of few cases
def floor_of(case_id: str) -> Floor:
    """Raises UnknownCase."""
    return floor(named(case_id))


def comparisons(table: pd.DataFrame) -> Iterator[Comparison]:
    """One for each machine, workload, size, scenario and batch."""
    split = lines_of(breakdown(table))
    columns = ("peak_bytes", *PARTS, "rest")
    for key, found in groups(split, "machine", "workload", "size", "scenario", "batch"):
        group = in_order(found)
        machine, workload, size, scenario, batch = key
        rows = tuple(
            (r["framework"], r["strategy"], *(mib(r[c]) for c in columns),
             number(r["peak_over_floor"], ".2f"), r["peak_instrument"])
            for r in group
        )  # fmt: skip
        yield Comparison(
            f"Where the peak goes: {workload} {scenario}, batch {batch}, size {size}",
            "MiB (2^20 bytes). The parts are counted by hand, at the moment when together they are most (gradients 0: at the "
            "end of the forward pass), and sum to the floor, the least that any implementation needs; rest = measured peak - "
            "floor: workspaces, gradients of activations, fragmentation, and what the framework keeps beyond the least. "
            f"{conditions(group)}",
            ("framework", "strategy", "peak", *PARTS, "rest", "peak / floor", "instrument"),
            rows,
            machine=machine,
            cases=tuple(r["case"] for r in group),
        )
