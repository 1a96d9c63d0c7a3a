"""Make one table of what training needs in each framework, and which strategy saves most memory.

The table is the last screen of a first run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from framebench.analysis import rows, tables
from framebench.analysis.answers import (
    describe_rivals,
    find_least,
    find_rivals,
    get_time_ratio,
    select_comparable,
    select_savings,
    select_with_price,
)
from framebench.analysis.needs import format_guessed_needs, format_needs
from framebench.analysis.rendering import Table, read_columns
from framebench.analysis.selection import is_unrestricted
from framebench.records.record import Record, get_measurement_time
from framebench.strategies.registry import find_baseline
from framebench.suite.case import DEFAULT_SIZE, TRIAL_SIZE
from framebench.suite.counting import format_count

SCENARIO = "train"
SHOWN = read_columns("answer", base=format_needs, least=format_needs)
MORE = (
    "what fits a budget: `framebench advise 'transformer/*/train' --budget 200MiB`; "
    "every strategy: `framebench report 'transformer/*/train'`",
    "more cases: `make bench PROFILE=quick`; "
    "as many blocks as what is published: `framebench run SELECTOR --blocks 5`",
)


def make_answer(
    table: pd.DataFrame,
    others: Mapping[str, pd.DataFrame] | None = None,
    listed: Collection[str] = (),
) -> Table:
    """Return the table of the least memory for training, by workload and framework.

    If the rows lack a time, it is taken from `others`, by machine. Cases that are `listed` below
    the table with their causes have no note.
    """
    trained = tables.select_in_use(table[table["scenario"] == SCENARIO])
    # the size for trying things out is left out where a workload has another
    is_serious = trained["size"] != TRIAL_SIZE
    has_serious = is_serious.groupby(trained["workload"]).transform("any")
    trained = trained[is_serious | ~has_serious]
    sizes = trained.groupby("workload")["size"].nunique()
    lines: list[dict[str, Any]] = []
    shown = []
    for (workload, size), of_size in trained.groupby(["workload", "size"], sort=False):
        usual = of_size[of_size["batch"] == rows.find_usual_batch(of_size)]
        shown.append(usual)
        name = str(workload)
        if sizes[name] > 1:
            name = f"{workload} {size}"
        for framework, group in usual.groupby("framework", sort=False):
            for line in make_lines(group, others or {}):
                lines.append({"workload": name, "framework": framework, **line})
    usual = pd.concat([trained.iloc[:0], *shown])
    caption = (
        f"What training needs: the peak of a step, what the process keeps next to it, and 5 % "
        f"more. {describe_models(usual)}base = {find_baseline(SCENARIO)}. MiB = 2^20 bytes. "
        f"{tables.READING}"
    )
    notes = (
        *describe_origins(usual),
        *describe_guesses(usual),
        *describe_problems(usual, listed),
        *MORE,
    )
    return Table(
        "The answer", caption, pd.DataFrame(lines, columns=list(SHOWN)), SHOWN, notes=notes
    )


def describe_models(shown: pd.DataFrame) -> str:
    """Return which batch and size of each workload the table is about, as a sentence.

    At the size `cpu` models are small, so that the sentence then says which command is for a GPU.
    """
    models = shown.drop_duplicates(["workload", "batch", "size"])
    if models.empty:
        return ""
    names = []
    for row in rows.iterate_rows(models):
        names.append(f"{row.workload} b{row.batch}/{row.size}")
    sentence = f"Of {rows.join_words(names)}. "
    if (models["size"] == DEFAULT_SIZE).any():
        sentence += (
            f"Models of the size {DEFAULT_SIZE} are small; for a GPU: framebench advise "
            f"'{models['workload'].iloc[0]}/*/train' --device h100-80gb. "
        )
    return sentence


def make_lines(group: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    """Yield the least memory of one workload, size and framework, and the least that was timed.

    Without a measured baseline, yield its status.
    """
    baselines = group[group["baseline"]]
    if baselines.empty:
        yield {"base": "not measured"}
        return
    base = tables.make_cells(baselines).iloc[0]
    if not base["usable"]:
        yield {"base": base["status"]}
        return
    base_needs = format_guessed_needs(base["needs_bytes"], base["least_needs_bytes"])
    line = {"base": base_needs, "throughput": base["throughput"]}
    savings = select_savings(select_comparable(group))
    if savings.empty:
        yield line | {"strategy": "nothing"}
    for row in select_with_price(list(rows.iterate_rows(savings))):
        price = describe_price(row, others)
        needs = format_guessed_needs(row.needs_bytes, row.least_needs_bytes)
        yield line | {"least": needs, "strategy": row.strategy, "time": price}


def describe_price(row: Any, others: Mapping[str, pd.DataFrame]) -> str:
    """Return the ratio of step times, from another machine if this one has none.

    The other machine is the first that timed the case next to its baseline on such a device.
    """
    ratio = get_time_ratio(row)
    if ratio is not None:
        return ratio.text
    for machine, table in others.items():
        is_case = (table["case"] == row.case) & (table["device"] == row.device)
        timed = table[is_case & table["usable"] & table["time_ratio"].notna()]
        for other in rows.iterate_rows(timed):
            ratio = get_time_ratio(other)
            if ratio is not None:
                return f"{ratio.text} on {machine}"
    return "not timed"


def describe_origins(shown: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the cases that each machine measured, if there are several machines."""
    if shown["machine"].nunique() < 2:
        return
    names = shown["workload"] + " " + shown["framework"]
    by_machine = names.groupby(shown["machine"], sort=False)
    if (by_machine.nunique() == names.nunique()).all():
        yield f"each with cases measured on {' and '.join(shown['machine'].unique())}"
        return
    for machine, names_of_machine in by_machine:
        yield f"with cases measured on {machine}: {rows.shorten_list(names_of_machine)}"


def describe_guesses(shown: pd.DataFrame) -> Iterator[str]:
    """Yield what `up to` means, and which strategies may need less than the least of the table."""
    if (shown["least_needs_bytes"] < shown["needs_bytes"]).any():
        yield (
            "up to: no search has run the strategy, so that what its process keeps is a guess by "
            "other strategies; framebench max-batch measures it"
        )
    for (workload, framework), group in shown.groupby(["workload", "framework"], sort=False):
        comparable = select_comparable(group)
        least = find_least(comparable)
        if least is None:
            continue
        rivals = describe_rivals(find_rivals(comparable, least))
        if rivals:
            yield f"{workload} {framework}: {rivals}"


def describe_problems(shown: pd.DataFrame, listed: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each fault that left cases without numbers.

    `listed` has the ids of cases that are left out, as their faults are listed below the table.
    """
    is_fine = shown["status"].isin(["ok", "unsupported"])
    is_listed = shown["case"].isin(listed)
    broken = shown[~is_fine & ~is_listed]
    # a reason may go on with details of the case, which would make every fault another one
    first_reasons = broken["reason"].astype(str).str.split(";").str[0]
    faults = broken["status"] + ": " + first_reasons
    for fault, cases in broken["case"].groupby(faults, sort=False):
        text = cases.iloc[0]
        if len(cases) > 1:
            text += f" and {len(cases) - 1} more"
        yield f"{text}: {fault}"


def find_last_run(records: Sequence[Record]) -> list[Record]:
    """Return the newest record of each case of the last run, in the order of measurement."""
    runs = sorted(filter(is_unrestricted, records), key=get_measurement_time)
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
    count = format_count(len(supported), "case")
    lines = [f"The last run has no numbers for {len(failures)} of its {count}:"]
    for record in failures:
        cause = " ".join((record.reason or "no reason given").split())
        lines.append(f"  {record.case:<{width}}  {record.status}: {cause}")
    return lines
