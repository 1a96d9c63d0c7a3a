"""Peak memory and speed of deep-learning frameworks by memory strategy, verified case by case.

import framebench

df = framebench.load()
df[df.usable].pivot_table("peak_ratio", index="strategy", columns="framework")
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    # imported by `load`: commands and workers that need no table do not wait for it
    import pandas as pd

    from framebench.analysis.results import Results

__all__ = ["folder", "ledger", "load", "machines", "planned", "releases"]


def __dir__() -> list[str]:
    """Return the public names, which editors and `dir` show, without what the module imports."""
    return sorted(__all__)


def folder() -> Path:
    """Return the results that are read where none are named: FRAMEBENCH_RESULTS, or `results/`.

    An installed copy has the published results, for a folder without `results/`.
    """
    from framebench.records.provenance import READABLE

    return Path(os.environ.get("FRAMEBENCH_RESULTS") or READABLE)


def load(
    results: Path | str | None = None,
    machine: str | None = None,
    *,
    versions: Literal["one", "all"] = "one",
) -> pd.DataFrame:
    """Return what one machine measured as a tidy DataFrame: one row per case.

    `results` is the folder of the records, by default `folder()`. `machine` is by default this one
    (FRAMEBENCH_MACHINE, or the host's name) if it has records, or else one with this processor, or
    else the one with the most. A machine that has only trials at size `tiny` is passed over, unless
    FRAMEBENCH_MACHINE names it. If there are several machines, a line on standard error names the
    one that was chosen, unless FRAMEBENCH_MACHINE is set. "all" has the rows of every machine.
    `versions`: "one" has of each framework the pinned version, or the one measured last; "all" has
    a row for each version of a case. Records of older protocols than the machine's newest are left
    out.

    docs/data.md has the columns (`framebench.analysis.frames.COLUMNS`): name, dtype, unit, meaning.
    Bytes, seconds and their ratios are float64, NaN where a value is missing; texts are `str`,
    `measured_at` is a moment in UTC. Rows are in the order of the published tables. Cases without
    numbers have rows too: `df[df.usable]` leaves those that were verified, with a strategy seen to
    take effect.

    Raises NoRecords for a folder without any, UnknownMachine with the names there are, and
    ValueError for other `versions`.
    """
    from framebench.analysis.results import Results
    from framebench.records.provenance import ALL

    shown_results = Results(folder() if results is None else Path(results))
    if machine == ALL:
        return shown_results.join_tables(versions)
    chosen = _choose_machine(shown_results, machine, "load", shown_results.has_more_than_trials)
    return shown_results.table(chosen, versions)


def _choose_machine(
    results: Results, named: str | None, function: str, answers: Callable[[str], bool]
) -> str:
    """Return the machine whose records a function reads, by the rule of all commands.

    A line on standard error names it if neither an argument nor FRAMEBENCH_MACHINE does.
    """
    from framebench.records.provenance import describe_hardware

    processor = describe_hardware()["cpu"]
    chosen = results.choose_machine(named, answers, processor)
    others = ", ".join(name for name in results.machines if name != chosen)
    if named is None and others and "FRAMEBENCH_MACHINE" not in os.environ:
        reason = results.explain_choice(chosen, processor)
        text = f"{chosen}, {reason}" if reason else chosen
        print(f"framebench.{function}(): machine {text}; others: {others}", file=sys.stderr)
    return chosen


def machines(results: Path | str | None = None) -> list[str]:
    """Return the machines that `load` can be asked for, the one with the most records first."""
    from framebench.analysis.results import Results

    return Results(folder() if results is None else Path(results)).machines


def planned(results: Path | str | None = None) -> pd.DataFrame:
    """Return what cases are predicted to need on devices that are not here.

    There is one row per case, device and release. Nothing in it is measured. The rows are what
    `framebench predict --device` kept in `results`, by default `folder()`. docs/data.md has the
    columns.
    """
    from framebench.devices.tables import frame

    return frame.load(folder() if results is None else Path(results))


def releases(results: Path | str | None = None, machine: str | None = None) -> pd.DataFrame:
    """Return what each release of a framework changed: one row per case, release and quantity.

    A release is compared with the one before it that the machine measured, as `framebench versions
    compare` does. `ratio` is change over base: above 1 is worse. The parts of a case are columns
    too, as in `load`. `results` is that of `load`.
    `machine` is by default FRAMEBENCH_MACHINE, or else the first, in the order of `load`, that
    measured two releases of a framework; a line on standard error names it. "all" has the rows of
    every machine.
    Raises NoRecords, UnknownMachine.
    """
    import pandas as pd

    from framebench.analysis.results import Results
    from framebench.records.provenance import ALL
    from framebench.suite.case import Case
    from framebench.versions.judge import QuantityComparison, compare_successive, has_successive

    shown_results = Results(folder() if results is None else Path(results))
    get_records = shown_results.get_records
    if machine == ALL:
        records = shown_results.records
    else:

        def answers(name: str) -> bool:
            is_named = os.environ.get("FRAMEBENCH_MACHINE") == name
            return is_named or has_successive(get_records(name))

        chosen = _choose_machine(shown_results, machine, "releases", answers)
        records = get_records(chosen)
    rows = []
    for compared in compare_successive(records):
        rows += compared
    table = pd.DataFrame(rows, columns=QuantityComparison._fields).drop(columns="records")
    cases = [Case.from_id(case_id) for case_id in table["case"]]
    place = table.columns.tolist().index("case") + 1
    for part in ("size", "batch", "strategy", "scenario", "framework", "workload"):
        table.insert(place, part, [getattr(case, part) for case in cases])
    return table


def ledger(results: Path | str | None = None, machine: str | None = None) -> pd.DataFrame:
    """Return what articles claim, and what was measured: one row per claim or part of one.

    `framebench claims --json` has the same rows, and the lines behind each verdict. `results` and
    `machine` are those of `load`; what that machine has not measured comes from the one with most
    records, unless an argument or FRAMEBENCH_MACHINE names the machine. Raises NoRecords,
    UnknownMachine.
    """
    import pandas as pd

    from framebench.analysis.results import Results
    from framebench.claims import ledger as claims

    shown_results = Results(folder() if results is None else Path(results))
    is_named = machine is not None or "FRAMEBENCH_MACHINE" in os.environ
    merged = None if is_named else claims.merge_ledgers(shown_results)
    if merged:
        entries, sentence = merged
        print(f"framebench.ledger(): {sentence}", file=sys.stderr)
    else:
        answers = shown_results.has_more_than_trials
        chosen = _choose_machine(shown_results, machine, "ledger", answers)
        entries = claims.make_ledger(shown_results, chosen)
    table = pd.DataFrame([vars(entry) for entry in entries])
    return table.drop(columns=["lines", "records"])
