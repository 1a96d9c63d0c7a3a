"""The short answers: by workload and framework the strategy with the lowest peak, the fastest one, and what each costs; ratios
alone, so that they fit a screen."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from framebench.analysis.answers import select_comparable, select_savings
from framebench.analysis.comparison import Comparison, Shown
from framebench.analysis.frames import ratios
from framebench.analysis.statistics import PEAK, TIME, correct_by_holm, decide
from framebench.analysis.tables import conditions, describe_measurement, relative
from framebench.models import spec
from framebench.publish.site.titles import title
from framebench.strategies.registry import baseline_of
from framebench.strategies.strategy import FRAMEWORKS

MAIN = ("train", "eval")  # the scenarios that everyone asks for
BASE = {
    "workload": Shown("workload"),
    "batch": Shown("batch"),
    "framework": Shown("framework"),
}
LEAN = {
    "strategy": Shown("lowest peak"),
    "relative_peak": Shown("peak x base", ".2f"),
    "relative": Shown("step x base"),
}
FAST = {
    "strategy": Shown("shortest step"),
    "relative": Shown("step x base"),
    "relative_peak": Shown("peak x base", ".2f"),
}


def _prefixed(prefix: str, columns: dict[str, Shown]) -> dict[str, Shown]:
    return {f"{prefix}_{name}": column for name, column in columns.items()}


SHOWN = BASE | _prefixed("lean", LEAN) | _prefixed("fast", FAST) | {"step_instrument": Shown("instrument")}


def headlines(df: pd.DataFrame) -> Iterator[Comparison]:
    """One table for each machine, scenario and size, of the cases that are comparable: those that the answer in words is of."""
    groups = df[~df["only_for_claims"]].groupby(["machine", "scenario", "size", "workload"])
    mine = pd.concat([df.iloc[:0], *(select_comparable(group) for _, group in groups)])
    for scenario in MAIN:
        for (machine, size), group in mine[mine["scenario"] == scenario].groupby(["machine", "size"]):
            yield _of_scenario(scenario, str(machine), str(size), group)


def _of_scenario(scenario: str, machine: str, size: str, group: pd.DataFrame) -> Comparison:
    group = group.assign(relative=relative(group), faster=faster(group))
    of_workloads = [group[group["workload"] == name] for name in spec.names()]
    rows = [row for of_workload in of_workloads if len(of_workload) for row in answers(_at_widest(of_workload))]
    titles = {column: [title(row[column]) for row in rows] for column in ("workload", "framework")}
    return Comparison(
        f"{title(scenario)}, size {size}: least memory and shortest step",
        f"Strategies that compute what {baseline_of(scenario)} of the same framework does, and were seen at work. A difference "
        f"counts from {PEAK.minimum:.0%} of the peak and {TIME.minimum:.0%} of the step on, if chance gives it in at most 5 %. "
        f"{describe_measurement(group)} {conditions(group)}",
        pd.DataFrame(rows, columns=list(SHOWN)).assign(**titles),
        SHOWN,
        left=3,
        machine=machine,
    )  # fmt: skip


def faster(group: pd.DataFrame) -> pd.Series:
    """Whether a row's steps are shorter than the baseline's, its p corrected for the number of them."""
    tested = group["time_ratio_p"].notna()
    corrected = pd.Series(correct_by_holm(group["time_ratio_p"][tested].tolist()), group.index[tested], dtype=float)
    indexed_ratios = zip(group.index, ratios(group))
    verdicts = [
        i in corrected and ratio is not None and decide(ratio, TIME, corrected[i]) == TIME.less for i, ratio in indexed_ratios
    ]
    return pd.Series(verdicts, group.index, dtype=bool)


def _at_widest(group: pd.DataFrame) -> pd.DataFrame:
    """The rows at the batch that has most of them; of several the smallest."""
    counts = group["batch"].value_counts()
    return group[group["batch"] == counts[counts == counts.max()].index.min()]


def answers(workload_rows: pd.DataFrame) -> Iterator[pd.Series]:
    """A row for each framework that has its baseline and something to compare with it."""
    for framework in FRAMEWORKS:
        mine = workload_rows[workload_rows["framework"] == framework]
        base = mine[mine["baseline"]]
        if len(base) and len(mine) > 1:
            lean = select_savings(mine).head(1)
            fast = mine[mine["faster"]].nsmallest(1, "time_ratio")
            yield pd.concat([base.iloc[0], of(lean, base, "lean", "none lower"), of(fast, base, "fast", "none shorter")])


def of(best: pd.DataFrame, base: pd.DataFrame, prefix: str, otherwise: str) -> pd.Series:
    """The best row, or the baseline's numbers where none is better."""
    return (best if len(best) else base.assign(strategy=otherwise)).iloc[0].add_prefix(f"{prefix}_")
