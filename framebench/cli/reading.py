"""Commands that read records and predict: `list | show | report | predict`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.shared import (
    ALL,
    READ,
    AsJson,
    Machine,
    Machines,
    Profile,
    Results,
    Selectors,
    answering,
    app,
    chosen,
    fail,
    machines_of,
    out,
)
from framebench.engine import runner
from framebench.engine.progress import line
from framebench.records.record import Record
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, names
from framebench.suite import profiles
from framebench.suite.case import Case

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder

WIDE = 120  # columns that the support matrix takes with its reasons


@app.command("list", rich_help_panel=READ)
def list_(
    selectors: Selectors = None,
    strategies: Annotated[
        bool, typer.Option("--strategies", help="What each framework has, and why not: of all cases, or of those named.")
    ] = False,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """List cases, or with --strategies what a framework has and why it lacks the rest: `list --strategies '*/jittor'`."""
    if strategies:
        _strategies(chosen(selectors, [], profile, size="*"), as_json)
        return
    chosen_cases = chosen(selectors, profiles.profile(), profile)
    if as_json:
        kinds = [{"case": c.id, "supported": c.support.supported, "how": c.support.why} for c in chosen_cases]
        typer.echo(json.dumps(kinds, indent=1))
        return
    if out.is_terminal:
        typer.echo("\n".join(_folded(chosen_cases, out.width)))
        return
    for case in chosen_cases:
        note = "" if case.support.supported else f"  unsupported: {case.support.why}"
        typer.echo(f"{case.id}{note}")


def _strategies(cases: Sequence[Case], as_json: bool) -> None:
    """Of these cases, or else of all."""
    from framebench.analysis.reports import support

    if as_json:
        every = [(s, name) for s in SCENARIOS for name in (*names(s), *(name for where, name in OVER_RANKS if where == s))]
        places = dict.fromkeys((c.scenario, c.strategy) for c in cases) or every
        rows = [
            {"scenario": s, **dict(zip(support.HEADINGS, support.describe_strategy(SCENARIOS[s], name)))} for s, name in places
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    in_full = support.make_tables if out.width >= WIDE else support.make_summaries
    for part in support.describe_cases(cases) if cases else in_full():
        part.terminal(out)
    out.print("docs/strategies.md says which combine, and has those that only test an article's sentence.", highlight=False)


def _folded(cases: Sequence[Case], width: int) -> Iterator[str]:
    """For a screen: the batches of a strategy on one line, which is a selector too, and below it why it is unsupported."""
    batches: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        *place, batch, size = case.id.split("/")
        why = "" if case.support.supported else f"unsupported: {case.support.why}"
        batches.setdefault(("/".join(place), size, why), []).append(batch)
    for (strategy, size, why), several in batches.items():
        named = several[0] if len(several) == 1 else f"{{{','.join(several)}}}"
        yield f"{strategy}/{named}/{size}"
        yield from wrap(why, width, initial_indent="    ", subsequent_indent="    ")


@app.command(rich_help_panel=READ)
def show(
    selectors: Selectors = None, results: Results = runner.RESULTS, machine: Machines = None, as_json: AsJson = False
) -> None:
    """Show the current record of each case, as lines or as JSON."""
    from framebench.analysis.frames import rows
    from framebench.analysis.results import Results as Folder
    from framebench.analysis.selection import select_cases

    folder, wanted = Folder(results), named(selectors)
    machines = machines_of(folder, machine, has(folder, selectors))
    kept_records = kept(selectors, machines, folder)
    if as_json:  # a row's ratios are to other cases
        every = rows(r for r in folder.records if r.provenance.machine in machines)
        chosen_rows = [vars(row) for row in every if wanted(row.case)]
        typer.echo(json.dumps(chosen_rows, indent=1, default=lambda moment: moment.isoformat()))
        return
    if not kept_records:
        fail(f"no such records under {results}; measure first: framebench run, or make bench", 1)
    selected = [measured.read for measured in select_cases(kept_records)]
    several = len({r.case for r in selected}) < len(selected)
    times = {(row.machine, row.framework_version, row.case): row.step_time_s for row in rows(kept_records)}
    width = max(len(record.case) for record in selected)
    for record in selected:
        origin = f"  {record.provenance.machine}, {record.framework_version or '-'}" if several or machine == ALL else ""
        step_s = times[record.provenance.machine, record.framework_version, record.case]
        typer.echo(f"{line(record, step_s, width)}{origin}")


def has(folder: Folder, selectors: list[str] | None) -> Callable[[str], bool]:
    """Whether a machine has records of the cases that are named. Raises UnknownCase."""
    wanted = named(selectors)
    return lambda machine: not selectors or any(wanted(record.case) for record in folder.of_machine(machine))


def kept(selectors: list[str] | None, machines: list[str], folder: Folder) -> list[Record]:
    """The records of the cases that are named, and of these machines. Raises UnknownCase."""
    wanted = named(selectors)
    return [r for r in folder.records if wanted(r.case) and r.provenance.machine in machines]


def named(selectors: list[str] | None) -> Callable[[str], bool]:
    """Whether a record's case is one of those named, in any size unless it is stated. Without names every one is, also a
    combination that no profile has. Raises UnknownCase."""
    if not selectors:
        return lambda case: True
    return {c.id for c in chosen(selectors, [], size="*")}.__contains__


@app.command(rich_help_panel=READ)
def answer(results: Results = runner.RESULTS, machine: Machine = None) -> None:
    """One table: what training needs in each framework, which strategy saves most memory, and at what price.

    Below it, the cases of the machine's last run that came out wrong or failed, with their causes.
    """
    from framebench.analysis.reports import answer as report
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)
    others = {} if machine else {name: folder.table(name) for name in folder.machines}
    machines = answering(folder, machine)
    last_run = report.find_last_run(folder.of_machine(machines[0]))
    failed_cases = [record.case for record in report.find_failures(last_run)]
    report.answer(folder.answering(machines), others, failed_cases).terminal(out)
    for line_of_failure in report.list_failures(last_run):
        out.print(line_of_failure, markup=False, highlight=False, soft_wrap=True)
