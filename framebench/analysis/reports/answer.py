"""What training needs in each framework, and which strategy saves most memory, in one table.

It is the last screen of a first run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from framebench.analysis import rows, tables
from framebench.analysis.answers import (
    find_timed,
    get_time_ratio,
    select_comparable,
    select_savings,
    select_with_price,
)
from framebench.analysis.needs import format_whole_needs
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.selection import get_measurement_time
from framebench.records.record import Record
from framebench.strategies.registry import SCENARIOS

SCENARIO = "train"
TINY = "tiny"
SHOWN = {
    "workload": TableColumn("workload"),
    "framework": TableColumn("framework"),
    "base": TableColumn("base needs", format_whole_needs, unit="MiB"),
    "least": TableColumn("least needed", format_whole_needs, unit="MiB", priority=ESSENTIAL),
    "strategy": TableColumn("by strategy", priority=ESSENTIAL),
    "time": TableColumn("step x base", priority=ESSENTIAL),
    "throughput": TableColumn("base throughput", priority=DETAIL),
}
MORE = (
    "what fits a budget: `framebench advise 'transformer/*/train' --budget 200MiB`; "
    "every strategy: `framebench report 'transformer/*/train'`",
    "more cases: `make bench PROFILE=quick`; "
    "as many blocks as what is published: `framebench run SELECTOR --blocks 5`",
)


@dataclass(frozen=True)
class AnswerRow:
    """A line of the table: a strategy that saves memory, or why there is none.

    `machines` measured it.
    """

    workload: str
    framework: str
    machines: tuple[str, ...]
    base: float | str | None = None  # bytes, or the status
    least: float | None = None
    strategy: str | None = None
    time: str | None = None
    throughput: str | None = None


def make_answer(
    table: pd.DataFrame,
    others: Mapping[str, pd.DataFrame] | None = None,
    listed: Collection[str] = (),
) -> Table:
    """Return what training takes by workload and framework, from rows of `framebench.load`.

    Times are those of `others`, by machine, where these lack them. Cases that are `listed` below
    the table with their causes have no note.
    """
    timed = find_timed(others or {})
    trained = drop_tiny(tables.select_in_use(table[table["scenario"] == SCENARIO]))
    batches = trained.groupby(["workload", "size"])["batch"]
    usual = batches.transform(lambda of_workload: of_workload.mode().min())
    shown = trained[trained["batch"] == usual]
    sizes = trained.groupby("workload")["size"].nunique()
    lines: list[AnswerRow] = []
    groups = shown.groupby(["workload", "framework", "size"], sort=False)
    for (workload, _, size), group in groups:
        name = str(workload)
        if sizes[name] > 1:
            name = f"{workload} {size}"
        lines += make_lines(name, group, timed)
    caption = (
        f"What training needs: the peak of a step, what the process keeps next to it, and 5 % "
        f"more. base = {SCENARIOS[SCENARIO].baseline}. MiB = 2^20 bytes. {tables.READING}"
    )
    unlisted = shown[~shown["case"].isin(listed)]
    notes = (*describe_origins(lines), *describe_problems(unlisted), *MORE)
    data = pd.DataFrame([vars(line) for line in lines], columns=list(SHOWN))
    return Table("The answer", caption, data, SHOWN, notes=notes)


def drop_tiny(trained: pd.DataFrame) -> pd.DataFrame:
    """Drop the size for trying things out, where a workload has another."""
    is_serious = trained["size"] != TINY
    has_serious = is_serious.groupby(trained["workload"]).transform("any")
    return trained[is_serious | ~has_serious]


def make_lines(workload: str, group: pd.DataFrame, timed: dict[Any, Any]) -> Iterator[AnswerRow]:
    """Yield the least memory of one workload, size and framework, and the least that was timed.

    Without a measured baseline, yield its status.
    """
    baselines = group[group["baseline"]]
    empty = AnswerRow(
        workload,
        framework=str(group["framework"].iloc[0]),
        machines=tuple(sorted(group["machine"].unique())),
    )
    if baselines.empty:
        yield replace(empty, base="not measured")
        return
    base = tables.make_cells(baselines).iloc[0]
    if not base["usable"]:
        yield replace(empty, base=base["status"])
        return
    line = replace(empty, base=base["needs_bytes"], throughput=base["throughput"])
    savings = select_savings(select_comparable(group))
    if savings.empty:
        yield replace(line, strategy="nothing")
    for row in select_with_price(list(rows.iterate_rows(savings))):
        price = describe_price(row, timed)
        yield replace(line, least=row.needs_bytes, strategy=row.strategy, time=price)


def describe_price(row: Any, timed: dict[Any, Any]) -> str:
    """Return the ratio of step times, of another machine where this one has none."""
    ratio = get_time_ratio(row)
    if ratio is not None:
        return ratio.text
    if (row.case, row.device) in timed:
        machine, other = timed[row.case, row.device]
        other_ratio = get_time_ratio(other)
        if other_ratio is not None:
            return f"{other_ratio.text} on {machine}"
    return "not timed"


def describe_origins(lines: Sequence[AnswerRow]) -> Iterator[str]:
    """Yield which cases each machine measured, where there are several."""
    machines: dict[str, list[str]] = {}
    for line in lines:
        for name in line.machines:
            machines.setdefault(name, []).append(f"{line.workload} {line.framework}")
    if len(machines) > 1:
        for name, cases in machines.items():
            yield f"with cases measured on {name}: {rows.shorten_list(cases)}"


def describe_problems(trained_rows: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence for each fault that left a case without numbers."""
    broken = trained_rows[~trained_rows["status"].isin(["ok", "unsupported"])]
    cases_by_fault: dict[str, list[str]] = {}
    for row in rows.iterate_rows(broken):
        fault = f"{row.status}: {str(row.reason).partition(';')[0]}"
        cases_by_fault.setdefault(fault, []).append(row.case)
    for fault, cases in cases_by_fault.items():
        others = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"{cases[0]}{others}: {fault}"


def find_last_run(records: Sequence[Record]) -> list[Record]:
    """Return the newest record of each case of the last run, in the order of measurement."""
    runs = []
    for record in sorted(records, key=get_measurement_time):
        # neither a search under a limit of memory nor a study with planted slowdowns is a run
        if record.provenance.memory_limit is None and not record.provenance.planted:
            runs.append(record)
    newest: dict[str, Record] = {}
    for record in runs:
        if record.provenance.session == runs[-1].provenance.session:
            newest[record.case] = record
    return list(newest.values())


def find_failures(run: Sequence[Record]) -> list[Record]:
    """Return the records of a run that have no numbers though their cases can be measured."""
    return [record for record in run if record.status not in ("ok", "unsupported")]


def list_failures(run: Sequence[Record]) -> list[str]:
    """Return a heading, and a line with the cause for each case that failed or was wrong."""
    failures = find_failures(run)
    if not failures:
        return []
    supported = [record for record in run if record.status != "unsupported"]
    width = max(len(record.case) for record in failures)
    lines = [f"The last run has no numbers for {len(failures)} of its {len(supported)} cases:"]
    for record in failures:
        cause = " ".join((record.reason or "no reason given").split())
        lines.append(f"  {record.case:<{width}}  {record.status}: {cause}")
    return lines
