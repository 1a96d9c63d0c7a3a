"""Make the short answers: the strategies that need least memory and take the shortest step.

There is one of each for a workload and framework. They have ratios alone, so that they fit a
screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from framebench.analysis.answers import select_comparable, select_savings
from framebench.analysis.batch_tables import describe_dependence, select_several
from framebench.analysis.frames import read_ratios
from framebench.analysis.needs import format_whole_needs
from framebench.analysis.rendering import Table, TableColumn
from framebench.analysis.rows import find_usual_batch
from framebench.analysis.statistics import PEAK, TIME, correct_by_holm, decide
from framebench.analysis.tables import describe_conditions, describe_measurement, format_time_ratios
from framebench.models import spec
from framebench.publish.site.titles import get_title
from framebench.strategies.registry import find_baseline
from framebench.strategies.strategy import FRAMEWORKS

MAIN_SCENARIOS = ("train", "eval")  # those that everyone asks for
# `lean_` columns are of the strategy that needs least memory, `fast_` columns of the fastest one
SHOWN = {
    "workload": TableColumn("workload"),
    "batch": TableColumn("batch"),
    "framework": TableColumn("framework"),
    "lean_strategy": TableColumn("needs least"),
    "lean_needs_bytes": TableColumn("needs MiB", format_whole_needs),
    "lean_needs_ratio": TableColumn("needs x base", ".2f"),
    "lean_relative": TableColumn("step x base"),
    "fast_strategy": TableColumn("shortest step"),
    "fast_relative": TableColumn("step x base"),
    "fast_needs_bytes": TableColumn("needs MiB", format_whole_needs),
    "step_instrument": TableColumn("instrument"),
}


def make_headlines(df: pd.DataFrame) -> Iterator[Table]:
    """Yield a table of the comparable strategies for each machine, main scenario and size."""
    comparable = [df.iloc[:0]]  # the columns, where no group is left
    used = df[~df["only_for_claims"]]
    for _, group in used.groupby(["machine", "scenario", "size", "workload"]):
        comparable.append(select_comparable(group))
    compared = pd.concat(comparable)
    for scenario in MAIN_SCENARIOS:
        of_scenario = compared[compared["scenario"] == scenario]
        for (machine, size), group in of_scenario.groupby(["machine", "size"]):
            table = make_headline_table(scenario, str(machine), str(size), group)
            is_asked = (used["machine"] == machine) & (used["scenario"] == scenario)
            at_all_batches = used[is_asked & (used["size"] == size)]
            yield replace(table, notes=tuple(describe_other_batches(at_all_batches, table.data)))


def make_headline_table(scenario: str, machine: str, size: str, group: pd.DataFrame) -> Table:
    """Return the table of one machine, scenario and size."""
    group = group.assign(relative=format_time_ratios(group), faster=find_faster(group))
    headline_rows: list[pd.Series] = []
    for workload in spec.list_workloads():
        of_workload = group[group["workload"] == workload]
        if len(of_workload):
            widest = of_workload[of_workload["batch"] == find_usual_batch(of_workload)]
            headline_rows += make_rows(widest)
    data = pd.DataFrame(headline_rows, columns=list(SHOWN))
    return Table(
        f"{get_title(scenario)}, size {size}: least memory and shortest step",
        f"Strategies that compute what {find_baseline(scenario)} of the same framework does, and "
        f"were seen at work. A difference counts from {PEAK.minimum:.0%} of the need and "
        f"{TIME.minimum:.0%} of the step on, if chance gives it in at most 5 %. "
        f"{describe_measurement(group)} {describe_conditions(group)}",
        data.assign(
            workload=[get_title(name) for name in data["workload"]],
            framework=[get_title(name) for name in data["framework"]],
        ),
        SHOWN,
        left=3,
        machine=machine,
    )


def describe_other_batches(df: pd.DataFrame, headlines: pd.DataFrame) -> list[str]:
    """Return a line for each strategy of the headlines whose ratio depends on the batch.

    `df` has the rows of every batch, `headlines` the table's.
    """
    lines = []
    several = select_several(df)
    for key, group in several.groupby(["workload", "framework"], sort=False):
        workload, framework = map(str, key)
        is_same = (headlines["workload"] == get_title(workload)) & (
            headlines["framework"] == get_title(framework)
        )
        shown = headlines[is_same][["lean_strategy", "fast_strategy"]].to_numpy().ravel()
        for line in describe_dependence(group[group["strategy"].isin(shown)]):
            lines.append(f"{get_title(workload)}: {line}")
    return lines


def find_faster(group: pd.DataFrame) -> pd.Series:
    """Return whether each row's steps are shorter than the baseline's.

    The p values are corrected for the number of rows that were tested.
    """
    p_values = group["time_ratio_p"].dropna()
    corrected = dict(zip(p_values.index, correct_by_holm(p_values.tolist())))
    is_faster = []
    for index, ratio in zip(group.index, read_ratios(group)):
        if ratio is None or index not in corrected:
            is_faster.append(False)
        else:
            is_faster.append(decide(ratio, TIME, corrected[index]) == TIME.less)
    return pd.Series(is_faster, group.index, dtype=bool)


def make_rows(group: pd.DataFrame) -> Iterator[pd.Series]:
    """Yield a row for each framework that has its baseline and something to compare with it."""
    for framework in FRAMEWORKS:
        of_framework = group[group["framework"] == framework]
        base = of_framework[of_framework["baseline"]]
        if len(base) and len(of_framework) > 1:
            lean = select_savings(of_framework)
            fast = of_framework[of_framework["faster"]].nsmallest(1, "time_ratio")
            yield pd.concat(
                [
                    base.iloc[0],
                    take_best(lean, base, "none less").add_prefix("lean_"),
                    take_best(fast, base, "none shorter").add_prefix("fast_"),
                ]
            )


def take_best(ranked: pd.DataFrame, base: pd.DataFrame, otherwise: str) -> pd.Series:
    """Return the first row; if there is none, the baseline's numbers under the name `otherwise`."""
    if len(ranked):
        return ranked.iloc[0]
    return base.assign(strategy=otherwise).iloc[0]
