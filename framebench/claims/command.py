"""The command `claims`: the ledger of claims."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.shared import (
    MOST_S,
    READ,
    AsJson,
    MachineOption,
    ResultsOption,
    app,
    echo,
    end_command,
    fail,
    find_machine,
    format_options,
    out,
    repeat_options,
    say,
)
from framebench.records import provenance
from framebench.strategies.registry import SCENARIOS, STRATEGIES
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.sequences import group_by

NAME_IN_CODE = re.compile(r"[A-Za-z]\w*_\w+")

if TYPE_CHECKING:  # the command's options are shown without what reads records
    from framebench.analysis.results import Results
    from framebench.claims.claim import Claim
    from framebench.claims.ledger import Entry


@app.command(rich_help_panel=READ)
def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Such as A1, 'B1 memory', or words such as checkpointing. Default: all."
        ),
    ] = None,
    run: Annotated[
        bool,
        typer.Option("--run", help="Measure on this machine what is missing for these claims."),
    ] = False,
    machine: MachineOption = None,
    size: Annotated[
        str, typer.Option(help="Size of the cases: tiny to try things out, full for a GPU.")
    ] = DEFAULT_SIZE,
    blocks: Annotated[
        int, typer.Option(min=1, help="With --run: blocks of each case whose time is compared.")
    ] = 5,
    time_limit: Annotated[
        float,
        typer.Option(
            min=0.01, max=MOST_S, help="With --run: seconds for each of a case's two workers."
        ),
    ] = 900.0,
    device: Annotated[
        str,
        typer.Option(
            help="Answer for this device: cpu, or a name such as a100 (framebench devices)."
        ),
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Every comparison behind a claim, and the remarks.")
    ] = False,
    results: ResultsOption = provenance.READABLE,
    as_json: AsJson = False,
) -> None:
    """What articles claim and users report about memory, what was measured, and the verdict.

    One claim is shown with the comparisons behind it; what words find is shown with the best claim
    first, and the others as a list.
    """
    from framebench.analysis.results import Results
    from framebench.claims import ledger

    queries = ids or []
    other_size = None if size == DEFAULT_SIZE else size
    choices = format_options(size=other_size, machine=machine, device=device)
    options = repeat_options(results)
    chosen = choose_claims(queries, size, f"{choices}{options}")
    if device:
        from framebench.claims.devices import find_device

        device = find_device(device)
    failed = []
    if run:
        from framebench.claims.run import measure_missing
        from framebench.engine.runner import Options

        if results == provenance.PUBLISHED:  # into an installed package nothing is written
            results = provenance.ROOT / "results"
        failed = measure_missing(chosen, size, blocks, Options(time_limit_s=time_limit), results)
    recorded = Results(results)  # read after measuring
    if run and machine is None and shows_this_machine(recorded):
        entries = ledger.make_ledger(recorded, provenance.read_machine_name(), size, queries)
    else:
        entries = []
        merged = None if machine else ledger.merge_ledgers(recorded, size, queries)
        if merged:
            entries, machines = merged
            say(machines)
    if not entries:
        chosen_machine = find_machine(recorded, machine, recorded.has_more_than_trials)
        entries = ledger.make_ledger(recorded, chosen_machine, size, queries)
    if as_json:
        echo(json.dumps([ledger.as_json(entry) for entry in entries], indent=1))
    else:
        print_entries(entries, queries, device, everything, options, choices)
    end_command(succeeded=not failed)


def shows_this_machine(recorded: Results) -> bool:
    """Return whether the ledger after `--run` is this machine's.

    It is another machine's if only that one has measured anything.
    """
    from framebench.claims.measure import find_file

    here = provenance.read_machine_name()
    # programs leave no records, but a file of their own
    has_measured = here in recorded.machines or find_file(recorded.root, here).exists()
    return has_measured or not recorded.machines


def choose_claims(queries: list[str], size: str, options: str) -> tuple[Claim, ...]:
    """Return the claims that the queries name; all without a query.

    Prints other commands that answer a query, and the words that no claim has. An unknown size or
    claim ends the command; the command that its message suggests ends with `options`.
    """
    from framebench.claims.registry import REGISTRY, UnknownClaim

    sizes = sorted({profile.size for profile in profiles.PROFILES.values()})
    if size not in sizes:
        fail(f"no size {size!r}; sizes: {', '.join(sizes)}", 2)
    other_commands = REGISTRY.list_other_commands(queries)
    unknown = REGISTRY.list_unknown_words(queries)
    cases = find_cases_of_strategy(queries)
    if cases:
        other_commands.append(
            f"What was measured of this strategy: framebench show '{cases}' --by-machine"
        )
    for sentence in other_commands:
        say(sentence)
    # a name that code has is no sequence of words, each of which some claim may have
    is_name = len(queries) == 1 and NAME_IN_CODE.fullmatch(queries[0]) is not None
    if (cases and unknown) or (is_name and other_commands and not cases):
        fail(
            f"no claim is about {' '.join(queries)}; the list of all: framebench claims{options}", 2
        )
    try:
        chosen = REGISTRY.select(queries)
    except UnknownClaim as error:  # it ends with a command
        fail(f"{error}{options}", 2)
    if unknown:
        say(f"no claim has {', '.join(unknown)}; shown are the claims with the other words")
    return chosen


def find_cases_of_strategy(queries: list[str]) -> str:
    """Return a selector of a strategy and its baseline, if the query is its name, or ""."""
    name = "_".join(" ".join(queries).lower().split())
    for scenario in ("train", "eval"):
        if (scenario, name) in STRATEGIES:
            return f"*/*/{scenario}/{{{SCENARIOS[scenario].baseline},{name}}}"
    return ""


def print_entries(
    entries: list[Entry],
    queries: list[str],
    device: str,
    everything: bool,
    options: str,
    choices: str,
) -> None:
    """Print some claims with their comparisons, and the others as a list for each machine.

    A single id, or the best claim that words find, is shown with its comparisons. `options` are
    those that every suggested command has to repeat, `choices` those of `framebench claims` alone.
    """
    from framebench.claims.registry import ID
    from framebench.claims.search import find_subjects
    from framebench.claims.show import make_answer, make_detail, make_list, split_by_source

    answers: list[Entry] = []
    if len({entry.id for entry in entries}) == 1:
        answers = entries
    elif queries and not any(ID.match(query.upper()) for query in queries):
        answers = entries[:1]
    subjects = find_subjects(" ".join(queries))
    for entry in answers:
        if everything:
            make_detail(entry, device, options).terminal(out)
        else:
            make_answer(entry, device, options, choices, subjects).terminal(out)
    listed = [entry for entry in entries if entry not in answers]
    for machine_entries in group_by(listed, lambda entry: entry.machine).values():
        for source_entries in split_by_source(machine_entries):
            make_list(source_entries, f"{choices}{options}").terminal(out)
