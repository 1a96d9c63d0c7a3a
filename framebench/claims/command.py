"""The command `claims`: the ledger of claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.measuring import Blocks, measure_all
from framebench.cli.shared import (
    BROKEN,
    MOST_S,
    READ,
    AsJson,
    Machine,
    Results,
    app,
    echo,
    fail,
    find_machine,
    open_session,
    out,
    say,
)
from framebench.devices.plans.planning import planned_for
from framebench.engine import environments, runner
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE

if TYPE_CHECKING:  # the command's options are shown without what reads records
    from framebench.analysis.results import Results as Folder
    from framebench.claims.claim import Claim
    from framebench.claims.entries import Entry
    from framebench.claims.missing import Missing
    from framebench.suite.case import Case


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
    evidence: Annotated[
        bool,
        typer.Option(
            help="With --run: also what is shown beside the verdicts and decides nothing."
        ),
    ] = True,
    cases: Annotated[
        bool,
        typer.Option(help="With --run: measure cases too, not only probes, listings and plans."),
    ] = True,
    machine: Machine = None,
    size: Annotated[
        str, typer.Option(help="Size of the cases: tiny to try things out, full for a GPU.")
    ] = DEFAULT_SIZE,
    blocks: Blocks = 5,
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
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """What articles claim and users report about memory, what was measured, and the verdict.

    One claim is shown with the comparisons behind it; what words find is shown with the best claim
    first, and the others as a list.
    """
    from framebench.analysis.results import Results as Folder
    from framebench.claims import entries as ledger_entries
    from framebench.claims.answers import UnknownDevice, find_device
    from framebench.claims.ledger import ledger
    from framebench.claims.registry import REGISTRY, UnknownClaim
    from framebench.claims.show import make_answer, make_detail, make_list, split_by_source

    queries = ids or []
    sizes = sorted({profile.size for profile in profiles.PROFILES.values()})
    if size not in sizes:
        fail(f"no size {size!r}; sizes: {', '.join(sizes)}", 2)
    try:
        chosen = REGISTRY.chosen(queries)
    except UnknownClaim as error:
        fail(str(error), 2)
    try:
        device = find_device(device) if device else ""
    except UnknownDevice as error:
        fail(str(error), 2)
    unknown = REGISTRY.list_unknown_words(queries)
    if unknown:
        say(f"no claim has {', '.join(unknown)}; shown are the claims with the other words")
    failed = []
    if run:
        options = runner.Options(time_limit_s=time_limit)
        failed = measure_missing(chosen, size, evidence, cases, blocks, options, results)
    folder = Folder(results)  # read after measuring
    entries = [] if machine or run else merge_ledgers(folder, size, queries)
    where = provenance.read_machine_name() if run and not machine else find_machine(folder, machine)
    entries = entries or ledger(folder, where, size, queries)
    if as_json:
        echo(json.dumps([ledger_entries.as_json(entry) for entry in entries], indent=1))
        raise typer.Exit(bool(failed))
    shown = choose_answers(entries, queries)
    for entry in shown:
        (make_detail(entry) if everything else make_answer(entry, device)).terminal(out)
    entries = [entry for entry in entries if entry not in shown]
    if entries:
        for name in dict.fromkeys(entry.machine for entry in entries):
            for part in split_by_source([entry for entry in entries if entry.machine == name]):
                make_list(part).terminal(out)
    raise typer.Exit(bool(failed))


def choose_answers(entries: list[Entry], queries: list[str]) -> list[Entry]:
    """Return the entries that are shown with their comparisons: those of one id, or the best."""
    from framebench.claims.registry import ID

    if len({entry.id for entry in entries}) == 1:
        return entries
    is_search = bool(queries) and not any(ID.match(query.upper()) for query in queries)
    return entries[:1] if is_search else []


def merge_ledgers(folder: Folder, size: str, queries: list[str]) -> list[Entry]:
    """Return each claim as this machine has measured it, or else as the published one has, this
    machine's first.

    Empty where there are not both.
    """
    from framebench.claims.ledger import is_measured, ledger

    here = provenance.read_machine_name()
    others = [name for name in folder.machines if name != here]
    if here not in folder.machines or not others:
        return []
    own, published = ledger(folder, here, size, queries), ledger(folder, others[0], size, queries)
    merged = [mine if is_measured(mine) else theirs for mine, theirs in zip(own, published)]
    count = sum(is_measured(entry) for entry in own)
    rest = (
        (f", has measured {count} of {len(merged)} claims; the others are those of {others[0]}")
        if count < len(merged)
        else ""
    )
    say(f"machine {here}, this one{rest}; --machine takes another's alone: {', '.join(others)}")
    return sorted(merged, key=lambda entry: entry.machine != here)


def measure_missing(
    claims: tuple[Claim, ...],
    size: str,
    informational: bool,
    with_cases: bool,
    blocks: int,
    options: runner.Options,
    results: Path,
) -> list[str]:
    """Run the probes that these claims lack here, measure cases and plan. Return what failed."""
    from framebench.analysis.results import Results as Folder
    from framebench.claims.missing import find_missing
    from framebench.claims.store import MachineResults

    here = MachineResults(Folder(results), provenance.read_machine_name())
    missing = find_missing(claims, here, size, informational, with_cases)
    if (
        all(map(runner.explain_unsupported, missing.cases))
        and not missing.probes
        and not missing.plans
    ):
        say("nothing is missing that this machine can measure")
        return []
    with open_session(
        results, f"claims {' '.join(claim.name for claim in claims)} {size} {blocks} blocks"
    ) as opened:
        failed = run_probes(missing.probes, size, results)
        failed += measure_cases(missing, opened, blocks, options, results)
        return failed + plan_cases(missing.plans, results)


def run_probes(probes: list[str], size: str, results: Path) -> list[str]:
    """Run one probe after the other and return those that failed; one that fails leaves the others
    unharmed.
    """
    from framebench.claims import measure
    from framebench.claims.ledger import list_names
    from framebench.claims.registry import REGISTRY

    failed = []
    for probe in probes:
        try:
            measure.run(probe, list_names(REGISTRY.claims), size, results, say)
        except (RuntimeError, environments.SetupError) as error:
            say(f"probe {probe} failed: {error}")
            failed.append(probe)
    return failed


def measure_cases(
    missing: Missing, opened: Session, blocks: int, options: runner.Options, results: Path
) -> list[str]:
    """Measure as `framebench run` does: what is compared in time in so many blocks, the rest once.

    Returns the ids of those that failed.
    """
    frameworks = {case.framework for case in missing.cases if not runner.explain_unsupported(case)}
    ready = {name: environments.ensure(name, say=say) for name in FRAMEWORKS if name in frameworks}
    for environment in ready.values():
        environments.warm(environment, "standard", say)
    pairs = [pair for pair in missing.pairs if not any(map(runner.explain_unsupported, pair))]
    paired = [case for pair in pairs for case in pair]
    timed = list(dict.fromkeys([*missing.timed, *paired]))
    failed = []
    for cases, times, together in ((timed, blocks, pairs), (missing.once, 1, [])):
        able = [case for case in cases if not runner.explain_unsupported(case)]
        statuses = measure_all(able, opened, ready, options, results, times, together)
        failed += [case.id for case, status in zip(able, statuses) if status in BROKEN]
    if failed:
        say(f"these failed: {', '.join(failed)}")
    return failed


def plan_cases(cases: list[Case], results: Path) -> list[str]:
    """Plan cases for the GPU of the planned measurements. Return the ids of those that failed."""
    from framebench.claims.plans import GPU

    if not cases:
        return []
    hint = (
        "; `framebench dev publish` puts them where claims read them"
        if results == runner.RESULTS
        else ""
    )
    say(f"{len(cases)} cases are planned for {GPU}{hint}")
    return [
        planned.case
        for planned in planned_for(cases, GPU, results, say)
        if planned.outcome == "failed"
    ]
