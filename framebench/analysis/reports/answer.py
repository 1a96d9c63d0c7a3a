"""The answer in one table: what each workload needs in each framework, and what saved most memory. The last screen of a first
run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framebench.analysis import tables
from framebench.analysis.comparison import MIB, Comparison, Shown
from framebench.records.record import case_of
from framebench.suite.registry import SCENARIOS

if TYPE_CHECKING:
    import pandas as pd

SCENARIO = "train"
BASELINE = SCENARIOS[SCENARIO].baseline
LEAST = 0.99  # of the baseline's peak: what is nearer saves nothing
SHOWN = {
    "workload": Shown("workload"),
    "framework": Shown("framework"),
    "peak_bytes": Shown("peak MiB", ",.1f", 1 / MIB),
    "step_time_s": Shown("step ms", ",.1f", 1e3),
    "best": Shown("saved most memory"),
    "best_peak": Shown("peak x base", ".2f"),
    "best_time": Shown("step x base"),
    "peak_instrument": Shown("instrument"),
}
MORE = (
    "framebench report: every strategy, with intervals; framebench advise 'transformer/*/train' --budget 200MiB: what to use",
    "make bench PROFILE=quick, or standard: evaluation, larger batches, all strategies; framebench doctor: is this machine fit",
    "framebench run SELECTOR --blocks 5: as many as what is published takes; framebench claims: what articles say, tested",
)


def answer(table: pd.DataFrame) -> Comparison:
    """Of one machine's rows as `framebench.load` gives them: training at the base batch, for each workload and framework."""
    import pandas as pd

    table = tables.used(table)
    trained = table[(table["scenario"] == SCENARIO) & table["batch"].eq(_base_batch(table))]
    rows = [_row_of(group) for _, group in trained.groupby(["workload", "framework", "size"], sort=False)]
    caption = (
        f"Training, base = {BASELINE} at the batch that strategies are compared at; MiB = 2^20 bytes. Peaks by different "
        "instruments are not comparable. What saved most memory has the smallest peak of the strategies measured here that "
        "compute the same and were seen to take effect."
    )
    return Comparison("The answer", caption, pd.DataFrame(rows), SHOWN, notes=(*_problems(trained), *MORE))


def _base_batch(table: pd.DataFrame) -> pd.Series:
    """Of each row the batch at which strategies are compared."""
    from framebench.models.spec import workload

    return table.apply(lambda row: workload(row["workload"]).preset(row["size"]).base, axis=1)


def _row_of(group: pd.DataFrame) -> dict[str, object]:
    """Of one workload and framework. Without a number it has the baseline's status."""
    base = group[group["strategy"] == BASELINE]
    first = group.iloc[0]
    row: dict[str, object] = {"workload": first["workload"], "framework": first["framework"]}
    if base.empty or not base.iloc[0]["usable"]:
        return row | {"peak_bytes": "not measured" if base.empty else base.iloc[0]["status"]}
    row |= {name: base.iloc[0][name] for name in ("peak_bytes", "step_time_s", "peak_instrument")}
    same = group["case"].map(lambda case: not (case_of(case).plan.variant or case_of(case).plan.mathematics))
    saving = group[same & group["usable"] & (group["peak_ratio"] < LEAST)]
    if saving.empty:
        return row | {"best": "nothing measured here"}
    best = saving.sort_values("peak_ratio").iloc[0]
    return row | {
        "best": best["strategy"],
        "best_peak": best["peak_ratio"],
        "best_time": tables.in_short(saving.loc[[best.name]])[0],
    }


def _problems(trained_rows: pd.DataFrame) -> Iterator[str]:
    """Cases that ended without numbers though they might have had some."""
    broken = trained_rows[~trained_rows["status"].isin(["ok", "unsupported"])]
    for _, row in broken.iterrows():
        yield f"{row['case']}: {row['status']}: {row['reason']}"
