"""The answer in words: what the strategy that needs least memory leaves of each framework's peak, and its cost in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.results import Results
from framebench.analysis.statistics import PEAK
from framebench.analysis.tables import relative
from framebench.models import spec
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.registry import BASELINES


@dataclass(frozen=True)
class Words:
    """What a document may have in the place of a table."""

    key: str
    lines: tuple[str, ...]

    def markdown(self) -> str:
        return "".join(f"- {line}\n" for line in self.lines)


def every(results: Results) -> list[Words]:
    """Of each machine that has something to compare."""
    all_words = [of_training(results.table(machine), machine) for machine in results.machines]
    return [words for words in all_words if words.lines]


def of_training(table: pd.DataFrame, machine: str) -> Words:
    """A line for each workload, from rows as `framebench.load` gives them."""
    mine = table[(table["scenario"] == "train") & (table["size"] == DEFAULT_SIZE)]
    lines = []
    # language models, which most people ask about, come first
    for workload in sorted(map(spec.workload, spec.names()), key=lambda w: w.unit != "tokens"):
        group = rows.shown(mine[mine["workload"] == workload.name])
        if phrases := [line(*answer) for answer in least(compared(group))]:
            lines.append(f"**{workload.title}**, training in batches of {rows.usual_batch(group)}: {'; '.join(phrases)}.")
    return Words(f"{machine}: in words", tuple(lines))


def line(framework: str, row: Any, ratio: str) -> str:
    if row is None:
        return f"in {framework} no strategy saves memory"
    base = f"`{BASELINES[row.scenario]}`"
    return f"{framework} needs {row.peak_ratio:.0%} of {base}'s peak{cost(ratio)} with `{row.strategy}`"


def compared(group: pd.DataFrame) -> pd.DataFrame:
    """Rows at the usual batch that compute what the baseline does and have its ratio of peaks; where strategies were timed,
    only those: what memory costs in speed is the question."""
    usual = group["batch"] == rows.usual_batch(group)
    comparable_rows = group[group["usable"] & group["same_mathematics"] & group["peak_ratio"].notna() & usual]
    timed = comparable_rows[comparable_rows["time_ratio"].notna()]
    return timed if (~timed["baseline"]).any() else comparable_rows


def least(comparable_rows: pd.DataFrame) -> Iterator[tuple[str, Any, str]]:
    """Of rows that can be compared: framework, the row with the least memory (None where no strategy saves), and the ratio of
    its step times as it is printed."""
    for framework, framework_rows in comparable_rows.groupby("framework", observed=True):
        saving = framework_rows[~framework_rows["baseline"] & (framework_rows["peak_ratio"] < 1 - PEAK.minimum)].nsmallest(
            1, "peak_ratio"
        )
        if len(framework_rows) > 1:
            yield str(framework), next(iter(rows.each(saving)), None), next(iter(relative(saving)), "-")


def cost(ratio: str) -> str:
    """What a ratio of step times adds to the answer; nothing where there is none."""
    if ratio == "-":
        return ""
    if ratio.startswith("undecided"):
        return ", time undecided,"
    return f" in {ratio.replace('~', 'about ').partition(' (')[0]}x the time"
