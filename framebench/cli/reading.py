"""Commands that read: `list`, `show` and `answer`."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from framebench.cli.shared import (
    ALL,
    READ,
    AsJson,
    MachineOption,
    Machines,
    ProfileOption,
    ResultsOption,
    Selectors,
    app,
    choose_cases,
    echo,
    fail,
    find_answering_machines,
    find_machines,
    out,
    say,
)
from framebench.engine import runner
from framebench.engine.progress import format_record
from framebench.records import provenance
from framebench.records.record import Record
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, list_strategies
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.selectors import PARTS, check_workload, join_choice
from framebench.suite.sequences import drop_duplicates, group_by

if TYPE_CHECKING:
    from framebench.analysis.rendering import Table
    from framebench.analysis.results import Results

MATRIX_COLUMNS = 120  # of the terminal that the support matrix takes with its reasons
BY_MACHINE_HELP = "Show peaks and step times side by side, a column for each machine."
STRATEGIES_HELP = "What each framework has, and why not: of all cases, or of those named."


@app.command("list", rich_help_panel=READ)
def list_(
    selectors: Selectors = None,
    strategies: Annotated[bool, typer.Option("--strategies", help=STRATEGIES_HELP)] = False,
    profile: ProfileOption = None,
    as_json: AsJson = False,
) -> None:
    """List cases, or with --strategies what a framework has and why it lacks the rest.

    For example: `framebench list --strategies '*/jittor'`.
    """
    if strategies:
        print_strategies(choose_cases(selectors, [], profile, size="*"), as_json)
        return
    cases = choose_cases(selectors, profiles.list_profile_cases(), profile)
    if as_json:
        rows = []
        for case in cases:
            support = {"supported": case.support.supported, "how": case.support.why}
            rows.append({"case": case.id, **support})
        echo(json.dumps(rows, indent=1))
    elif out.is_terminal:
        echo("\n".join(fold_batches(cases, out.width)))
    else:
        for case in cases:
            note = "" if case.support.supported else f"  unsupported: {case.support.why}"
            echo(f"{case.id}{note}")
    hint = None if as_json else find_other_sizes(selectors or [], profile)
    if hint:
        say(hint)


def find_other_sizes(selectors: Sequence[str], profile: str | None) -> str | None:
    """Return a hint at the sizes that the first selector without a size leaves out, or None."""
    for selector in selectors:
        listed_sizes = {case.size for case in choose_cases([selector], [], profile)}
        all_cases = choose_cases([selector], [], profile, size="*")
        all_sizes = drop_duplicates(case.size for case in all_cases)
        other_sizes = [size for size in all_sizes if size not in listed_sizes]
        if other_sizes:
            example = shlex.quote(add_size(selector, other_sizes[0]))
            return (
                f"Size {DEFAULT_SIZE}, where none is named; others: {', '.join(other_sizes)}. "
                f"For example: framebench list {example}"
            )
    return None


def add_size(selector: str, size: str) -> str:
    """Return a selector with this size, and `*` for each field that is missing before the size."""
    fields = selector.split("/")
    count_before_size = len(PARTS) - 1
    missing = ["*"] * (count_before_size - len(fields))
    return "/".join([*fields[:count_before_size], *missing, size])


def print_strategies(cases: Sequence[Case], as_json: bool) -> None:
    """Print which framework has which strategy: those of these cases, or all if there are none."""
    from framebench.analysis.reports import support

    if as_json:
        rows = []
        for scenario, strategy in list_case_strategies(cases):
            texts = support.describe_strategy(SCENARIOS[scenario], strategy)
            rows.append({"scenario": scenario, **dict(zip(support.HEADINGS, texts))})
        echo(json.dumps(rows, indent=1))
        return
    tables: Iterable[Table]
    if cases:
        tables = support.describe_cases(cases)
    elif out.width >= MATRIX_COLUMNS:
        tables = support.make_tables()
    else:
        tables = support.make_summaries()
    for table in tables:
        table.terminal(out)
    out.print(
        "docs/strategies.md says which combine, and has those that only test an article's "
        "sentence.",
        highlight=False,
    )


def list_case_strategies(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return the (scenario, strategy) pairs of these cases, each once.

    If `cases` is empty, return every pair there is, those over several ranks included.
    """
    if cases:
        return drop_duplicates((case.scenario, case.strategy) for case in cases)
    strategies = []
    for scenario in SCENARIOS:
        strategies += [(scenario, name) for name in list_strategies(scenario)]
        for strategy_scenario, name in OVER_RANKS:
            if strategy_scenario == scenario:
                strategies.append((scenario, name))
    return strategies


def fold_batches(cases: Sequence[Case], width: int) -> Iterator[str]:
    """Yield the batches of each strategy as one line, which is a selector too.

    Where it is unsupported, the reason follows in indented lines of `width` characters.
    """

    def get_strategy_and_size(case: Case) -> tuple[str, str, str]:
        strategy, _batch, size = case.id.rsplit("/", 2)
        reason = "" if case.support.supported else f"unsupported: {case.support.why}"
        return strategy, size, reason

    indent = "    "
    for (strategy, size, reason), group in group_by(cases, get_strategy_and_size).items():
        batches = []
        for case in group:
            _strategy, batch, _size = case.id.rsplit("/", 2)
            batches.append(batch)
        yield f"{strategy}/{join_choice(batches)}/{size}"
        yield from wrap(reason, width, initial_indent=indent, subsequent_indent=indent)


@app.command(rich_help_panel=READ)
def show(
    selectors: Selectors = None,
    results: ResultsOption = runner.RESULTS,
    machine: Machines = None,
    by_machine: Annotated[bool, typer.Option("--by-machine", help=BY_MACHINE_HELP)] = False,
    as_json: AsJson = False,
) -> None:
    """Show the current record of each case, as lines or as JSON."""
    from framebench.analysis.frames import make_rows
    from framebench.analysis.results import Results

    recorded = Results(results)
    if by_machine and machine is None:
        machine = ALL
    machines, records = find_records(recorded, machine, selectors)
    if by_machine and not as_json:
        from framebench.analysis.reports.machines import compare_machines
        from framebench.analysis.selection import select_single

        tables = compare_machines(make_rows(select_single(records)))
        if not tables:
            fail("no record of the named cases has numbers that may be shown", 1)
        for table in tables:
            table.terminal(out)
    elif as_json:
        case_ids = {record.case for record in records}
        # a row has ratios to other cases, so that all records of the machines are needed
        machine_records = [r for r in recorded.records if r.provenance.machine in machines]
        rows = make_rows(machine_records, recorded.searches)
        shown_rows = [vars(row) for row in rows if row.case in case_ids]
        echo(json.dumps(shown_rows, indent=1, default=datetime.isoformat))
    else:
        print_records(records, with_machine=machine == ALL)


def find_records(
    results: Results, machine: str | None, selectors: list[str] | None
) -> tuple[list[str], list[Record]]:
    """Return the machines that a command reads, and their records of the selected cases.

    A selector without a size selects all sizes. Without selectors all records are selected. Prints
    which other machine has more of the selected cases. Ends the command if there are no such
    records. Raises UnknownCase.
    """
    from framebench.analysis.results import suggest_first_run

    if selectors:
        case_ids = {case.id for case in choose_cases(selectors, [], size="*")}
        records = [record for record in results.records if record.case in case_ids]
        counts = count_cases(records)
        # a machine with some of the cases is better than this one without any
        machines = find_machines(results, machine, make_suitability_test(results, counts))
        if machine is None:
            print_machine_with_more(machines[0], counts)
    else:
        records = results.records
        machines = find_machines(results, machine)
    records = [record for record in records if record.provenance.machine in machines]
    if not records:
        fail(f"no such records under {results.root}; {suggest_first_run(results.root)}", 1)
    return machines, records


class CaseCount(NamedTuple):
    """The number of cases that a machine has records of, and of those that it timed."""

    measured: int = 0
    timed: int = 0


def count_cases(records: Iterable[Record]) -> dict[str, CaseCount]:
    """Return how many of the cases of these records each machine measured."""
    measured: defaultdict[str, set[str]] = defaultdict(set)  # by machine
    timed: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        name = record.provenance.machine
        measured[name].add(record.case)
        if record.step_s:
            timed[name].add(record.case)
    counts = {}
    for name, cases in measured.items():
        counts[name] = CaseCount(len(cases), len(timed[name]))
    return counts


def make_suitability_test(
    results: Results, counts: Mapping[str, CaseCount]
) -> Callable[[str], bool]:
    """Return a function that says whether a machine's records are shown for some cases.

    This machine, and those with this processor, are suitable if they have any of the cases. Of the
    others only the one is that measured most of them; among equals the one that timed most.
    """
    processor = provenance.describe_hardware()["cpu"]
    machine_with_most = max(counts, key=lambda name: counts[name], default="")

    def is_suitable(machine: str) -> bool:
        is_preferred = bool(results.explain_choice(machine, processor))
        return machine in counts and (is_preferred or machine == machine_with_most)

    return is_suitable


def print_machine_with_more(chosen: str, counts: Mapping[str, CaseCount]) -> None:
    """Print which machine measured most of the cases, if it has more than the chosen one."""
    chosen_count = counts.get(chosen, CaseCount()).measured
    other = max(counts, key=lambda name: counts[name].measured, default=chosen)
    other_count = counts.get(other, CaseCount()).measured
    if other_count > chosen_count:
        say(f"{chosen} has {chosen_count} of the cases, {other} has {other_count}")


def print_records(records: list[Record], with_machine: bool) -> None:
    """Print the current record of each case in a line.

    Machine and version follow if `with_machine`, and if a case has several records.
    """
    from framebench.analysis.frames import make_rows
    from framebench.analysis.selection import select_cases

    current = [measured.record for measured in select_cases(records)]
    cases = {record.case for record in current}
    has_several_origins = len(cases) < len(current)
    times = {}
    for row in make_rows(records):
        times[row.machine, row.framework_version, row.case] = row.step_time_s
    width = max(len(case) for case in cases)
    for record in current:
        machine, version = record.provenance.machine, record.framework_version
        text = format_record(record, times[machine, version, record.case], width)
        if with_machine or has_several_origins:
            text += f"  {machine}, {version or '-'}"
        echo(text)


@app.command(rich_help_panel=READ)
def answer(
    workload: Annotated[
        str | None, typer.Argument(help="Such as unet3d. Default: all workloads.")
    ] = None,
    results: ResultsOption = provenance.READABLE,
    machine: MachineOption = None,
) -> None:
    """One table: what training needs in each framework, which strategy saves most memory, and at
    what price.

    `report` has every strategy and batch of a workload, and `advise` what fits a budget or a GPU.
    Below it, the cases of the machine's last run that failed verification or broke, with their
    causes.
    """
    from framebench.analysis.reports import answer as report
    from framebench.analysis.results import Results

    if workload is not None and "/" in workload:
        fail(
            f"answer takes a workload, not cases: framebench answer {workload.split('/')[0]}, or "
            f"framebench report '{workload}'",
            2,
        )
    check_workload(workload or "*")
    recorded = Results(results)
    other_tables = {}  # by machine; their times are shown where the answer lacks one
    if machine is None:
        other_tables = {name: recorded.table(name) for name in recorded.machines}
    machines = find_answering_machines(recorded, machine, limit=2)
    last_run = report.find_last_run(recorded.get_records(machines[0]))
    failed_cases = [record.case for record in report.find_failures(last_run)]
    measured = recorded.make_answer_table(machines)
    if workload is not None:
        measured = measured[measured["workload"].map(lambda name: fnmatchcase(name, workload))]
    table = report.make_answer(measured, other_tables, failed_cases)
    table.terminal(out)
    for failure in report.list_failures(last_run):
        out.print(failure, markup=False, highlight=False, soft_wrap=True)
