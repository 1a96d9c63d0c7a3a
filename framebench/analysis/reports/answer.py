"""The answer in one table: what training needs in each framework, and which strategy saves most memory. The last screen of a
first run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from framebench.analysis import rows, tables
from framebench.analysis.answers import compared, saving, time_of, timed_elsewhere, with_price
from framebench.analysis.comparison import DETAIL, ESSENTIAL, MIB, Comparison, Shown
from framebench.analysis.selection import measured_at
from framebench.records.record import Record
from framebench.suite.registry import SCENARIOS

if TYPE_CHECKING:
    import pandas as pd

SCENARIO = "train"
TRIED_OUT = "tiny"
SHOWN = {
    "workload": Shown("workload"),
    "framework": Shown("framework"),
    "base": Shown("base MiB", ",.0f", 1 / MIB),
    "least": Shown("least MiB", ",.0f", 1 / MIB, priority=ESSENTIAL),
    "strategy": Shown("saved most memory", priority=ESSENTIAL),
    "time": Shown("step x base", priority=ESSENTIAL),
    "throughput": Shown("base throughput", priority=DETAIL),
}
MORE = (
    "what fits a budget: `framebench advise 'transformer/*/train' --budget 200MiB`; every strategy: "
    "`framebench report 'transformer/*/train'`",
    "more cases: `make bench PROFILE=quick`; as many blocks as what is published: `framebench run SELECTOR --blocks 5`",
)


def answer(table: pd.DataFrame, others: Mapping[str, pd.DataFrame] | None = None, listed: Collection[str] = ()) -> Comparison:
    """Training, by workload and framework, from rows as `framebench.load` gives them; times of `others` where these lack.

    Cases that are `listed` below the table with their causes have no note.
    """
    import pandas as pd

    elsewhere = timed_elsewhere(others or {})
    trained = _in_earnest(tables.used(table[table["scenario"] == SCENARIO]))
    usual = trained.groupby(["workload", "size"])["batch"].transform(lambda batches: batches.mode().min())
    at_base = trained[trained["batch"] == usual]
    sizes = trained.groupby("workload")["size"].nunique()
    found = [
        row
        for (workload, _, _), group in at_base.groupby(["workload", "framework", "size"], sort=False)
        for row in _rows_of(group, sizes[str(workload)] > 1, elsewhere)
    ]
    caption = f"Training. {tables.read_by(trained)} MiB = 2^20 bytes. base = {SCENARIOS[SCENARIO].baseline}. {tables.READING}"
    unlisted = at_base[~at_base["case"].isin(listed)]
    notes = (*_origins(found), *_problems(unlisted), *MORE)
    return Comparison("The answer", caption, pd.DataFrame(found, columns=[*SHOWN]), SHOWN, notes=notes)


def find_last_run(records: Sequence[Record]) -> list[Record]:
    """Return the newest record of each case that the last run measured, in the order of measurement."""
    in_order = sorted(records, key=measured_at)
    # neither a search under a limit of memory nor a study with planted slowdowns is a run that was asked for numbers
    runs = [r for r in in_order if r.provenance.memory_limit is None and not r.provenance.planted]
    newest: dict[str, Record] = {}
    for record in runs:
        if record.provenance.session == runs[-1].provenance.session:
            newest[record.case] = record
    return [*newest.values()]


def find_failures(run: Sequence[Record]) -> list[Record]:
    """Return the records of a run that have no numbers though their cases can be measured."""
    return [record for record in run if record.status not in ("ok", "unsupported")]


def list_failures(run: Sequence[Record]) -> list[str]:
    """Return a heading and a line for each case of a run that came out wrong or failed, with its cause."""
    failures = find_failures(run)
    if not failures:
        return []
    tried = [record for record in run if record.status != "unsupported"]
    width = max(len(record.case) for record in failures)
    lines = [f"The last run has no numbers for {len(failures)} of its {len(tried)} cases:"]
    for record in failures:
        cause = " ".join((record.reason or "no reason given").split())
        lines.append(f"  {record.case:<{width}}  {record.status}: {cause}")
    return lines


def _in_earnest(trained: pd.DataFrame) -> pd.DataFrame:
    """Without the size for trying things out, where a workload has another."""
    earnest = trained["size"] != TRIED_OUT
    return trained[earnest | ~earnest.groupby(trained["workload"]).transform("any")]


def _rows_of(group: pd.DataFrame, with_size: bool, elsewhere: dict[Any, Any]) -> Iterator[dict[str, object]]:
    """Of one workload, size and framework: the least memory, and the least that was timed here; or else the status."""
    base = group[group["baseline"]]
    first = group.iloc[0]
    machines = sorted(set(group["machine"]))
    workload = f"{first['workload']} {first['size']}" if with_size else first["workload"]
    row: dict[str, object] = {"workload": workload, "framework": first["framework"], "machines": machines}
    if base.empty or not base.iloc[0]["usable"]:
        yield row | {"base": "not measured" if base.empty else base.iloc[0]["status"]}
        return
    row |= {"base": base.iloc[0]["shared_bytes"], "throughput": tables.cells(base).iloc[0]["throughput"]}
    best = saving(compared(group))
    if best.empty:
        yield row | {"strategy": "nothing"}
    for one in with_price([*rows.each(best)]):
        place, timed = elsewhere.get((one.case, one.device), ("", one)) if isnan(one.time_ratio) else ("", one)
        price = f"{ratio.text}{place and f' on {place}'}" if (ratio := time_of(timed)) else "not timed"
        yield row | {"least": one.shared_bytes, "strategy": one.strategy, "time": price}


def _origins(found: list[dict[str, Any]]) -> Iterator[str]:
    """Where rows are of several machines: which ones."""
    machines = dict.fromkeys(name for row in found for name in row["machines"])
    for name in machines if len(machines) > 1 else ():
        of = rows.shortened(f"{row['workload']} {row['framework']}" for row in found if name in row["machines"])
        yield f"with cases measured on {name}: {of}"


def _problems(trained_rows: pd.DataFrame) -> Iterator[str]:
    """What ended without numbers though it might have had some: one sentence for each fault."""
    broken = trained_rows[~trained_rows["status"].isin(["ok", "unsupported"])]
    faults = [f"{status}: {str(why).partition(';')[0]}" for status, why in zip(broken["status"], broken["reason"])]
    for fault, cases in broken.assign(fault=faults).groupby("fault", sort=False)["case"]:
        others = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"{cases.iloc[0]}{others}: {fault}"
