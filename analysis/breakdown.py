"""Where a measured peak goes: what the case cannot do without (`models.floor`), and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from analysis.tables import Comparison, conditions, groups, in_order, number
from framebench.hypothetical import named
from models.floor import floor

MIB = 2**20
PARTS = ("parameters", "buffers", "optimizer", "inputs", "gradients", "activations")


def breakdown(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with a peak, with a column of bytes for each part, and `floor`, `rest` and `peak_over_floor`.

    The parts are those of the moment when the least that is needed is most: often the end of the forward pass, when there are
    all activations and no gradient. `rest` is everything else in the measured peak: workspaces, gradients of activations,
    fragmentation, and what the framework keeps beyond the least.
    """
    measured = table[(table["status"] == "ok") & table["peak_bytes"].notna()].reset_index(drop=True)
    floors = [floor(named(case)) for case in measured["case"]]
    parts = pd.DataFrame([asdict(f) for f in floors], columns=list(PARTS))
    total = pd.Series([f.total for f in floors], dtype="float64")
    rest = {"floor": total, "rest": measured["peak_bytes"] - total, "peak_over_floor": measured["peak_bytes"] / total}
    return pd.concat([measured, parts.assign(**rest)], axis=1)


def comparisons(table: pd.DataFrame) -> Iterator[Comparison]:
    """One for each machine, workload, size, scenario and batch."""
    split = breakdown(table).to_dict("records")
    columns = ("peak_bytes", *PARTS, "rest")
    for key, group in groups(split, "machine", "workload", "size", "scenario", "batch"):
        machine, workload, size, scenario, batch = key
        rows = tuple(
            (r["framework"], r["strategy"], *(number(r[c], ",.1f", 1 / MIB) for c in columns),
             number(r["peak_over_floor"], ".2f"), r["peak_instrument"])
            for r in in_order(group)
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
            cases=tuple(r["case"] for r in in_order(group)),
        )
