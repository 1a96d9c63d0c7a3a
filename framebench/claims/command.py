"""The ledger of claims: `claims`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.measuring import Blocks, measure_all
from framebench.cli.shared import BROKEN, READ, AsJson, Machine, Results, app, fail, machine_of, out, say, session
from framebench.devices.plans.planning import planned_for
from framebench.engine import environments, runner
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder
    from framebench.claims.claim import Claim
    from framebench.claims.entries import Entry
    from framebench.claims.wanted import Wanted
    from framebench.suite.case import Case


@app.command(rich_help_panel=READ)
def claims(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Such as A1, 'B1 memory', or words such as checkpointing. Default: all.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Measure on this machine what is missing for these claims.")] = False,
    evidence: Annotated[
        bool, typer.Option(help="With --run: also what is shown beside the verdicts and decides nothing.")
    ] = True,
    cases: Annotated[bool, typer.Option(help="With --run: measure cases too, not only probes, listings and plans.")] = True,
    machine: Machine = None,
    size: Annotated[str, typer.Option(help="Size of the cases: tiny to try things out, full for a GPU.")] = DEFAULT_SIZE,
    blocks: Blocks = 5,
    time_limit: Annotated[float, typer.Option(min=0.01, help="With --run: seconds for each of a case's two workers.")] = 900.0,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """What articles claim and users report about memory, what was measured, and the verdict. Several claims are a list; one is
    shown with every comparison behind it."""
    from framebench.analysis.results import Results as Folder
    from framebench.claims.claim import UnknownClaim
    from framebench.claims.entries import as_json as plain
    from framebench.claims.ledger import ledger
    from framebench.claims.registry import REGISTRY
    from framebench.claims.show import detail, in_short, parts

    if size not in (valid_sizes := sorted({p.size for p in profiles.PROFILES.values()})):
        fail(f"no size {size!r}; sizes: {', '.join(valid_sizes)}", 2)
    try:
        chosen = REGISTRY.chosen(ids or [])
    except UnknownClaim as error:
        fail(str(error), 2)
    for text in REGISTRY.inexact(ids or []):
        say(f"no claim has the words {text.lower()!r}; shown is what shares most of them")
    failed = measure(chosen, size, (evidence, cases), blocks, time_limit, results) if run else []
    folder = Folder(results)  # anew: what was measured just now is in it
    entries = _by_default(folder, size, ids or []) if not (machine or run) else []
    where = provenance.machine_name() if run and not machine else machine_of(folder, machine)
    entries = entries or ledger(folder, where, size, ids or [])
    if as_json:
        typer.echo(json.dumps([plain(entry) for entry in entries], indent=1))
    elif len({entry.id for entry in entries}) == 1:
        for entry in entries:
            detail(entry).terminal(out)
    else:
        for name in dict.fromkeys(entry.machine for entry in entries):
            for part in parts([entry for entry in entries if entry.machine == name]):
                in_short(part).terminal(out)
    raise typer.Exit(bool(failed))


def _by_default(folder: Folder, size: str, ids: list[str]) -> list[Entry]:
    """Each claim as this machine has measured it, or else as the published one has, this machine's first. Empty where there are
    not both."""
    from framebench.claims.ledger import ledger, measured_there

    here = provenance.machine_name()
    others = [name for name in folder.machines if name != here]
    if here not in folder.machines or not others:
        return []
    own_entries, published = (ledger(folder, name, size, ids) for name in (here, others[0]))
    merged = [mine if measured_there(mine) else theirs for mine, theirs in zip(own_entries, published)]
    count = sum(map(measured_there, own_entries))
    rest = f", has measured {count} of {len(merged)} claims; the others are those of {others[0]}" if count < len(merged) else ""
    say(f"machine {here}, this one{rest}; --machine takes another's alone: {', '.join(others)}")
    return sorted(merged, key=lambda entry: entry.machine != here)


def measure(
    chosen: tuple[Claim, ...], size: str, also: tuple[bool, bool], blocks: int, time_limit: float, results: Path
) -> list[str]:
    """Run the probes that these claims lack here, plan, and measure: `also` evidence and cases. Returns what failed."""
    from framebench.analysis.results import Results as Folder
    from framebench.claims.ledger import names
    from framebench.claims.registry import REGISTRY
    from framebench.claims.store import Measured
    from framebench.claims.wanted import wanted

    evidence, cases = also
    lacking = wanted(chosen, Measured(Folder(results), provenance.machine_name()), size, evidence, cases)
    missing = any(not runner.unsupported(case) for case in lacking.cases)
    if not missing and not lacking.probes and not lacking.plans:
        say("nothing is missing that this machine can measure")
        return []
    with session(results, f"claims {' '.join(c.name for c in chosen)} {size} {blocks} blocks") as opened:
        failed = _run_probes(lacking.probes, names(REGISTRY.claims), size, results)
        failed += _run_cases(lacking, opened, blocks, time_limit, results)
        return failed + _plan(lacking.plans, results)


def _plan(cases: list[Case], results: Path) -> list[str]:
    """For the card of the planned arms. Returns the ids of those that failed."""
    from framebench.claims.plans import CARD

    if not cases:
        return []
    unseen = "; `framebench dev publish` puts them where claims read them" if results == runner.RESULTS else ""
    say(f"{len(cases)} cases are planned for {CARD}{unseen}")
    return [planned.case for planned in planned_for(cases, CARD, results, say) if planned.outcome == "failed"]


def _run_cases(lacking: Wanted, session: Session, blocks: int, time_limit: float, results: Path) -> list[str]:
    """The same way as `framebench run`: what is compared in time in so many blocks, the rest once. Returns the ids of those
    that failed."""
    frameworks = {c.framework for c in lacking.cases if not runner.unsupported(c)}
    ready = {f: environments.ensure(f, say=say) for f in FRAMEWORKS if f in frameworks}
    for environment in ready.values():
        environments.warm(environment, "standard", say)
    pairs = [pair for pair in lacking.pairs if not any(map(runner.unsupported, pair))]
    often = list(dict.fromkeys([*lacking.timed, *(case for pair in pairs for case in pair)]))
    bad = []
    for cases, times, both in ((often, blocks, pairs), (lacking.once, 1, [])):
        able = [case for case in cases if not runner.unsupported(case)]
        statuses = measure_all(able, session, ready, runner.Options(time_limit_s=time_limit), results, times, both)
        bad += [case.id for case, status in zip(able, statuses) if status in BROKEN]
    if bad:
        say(f"these failed: {', '.join(bad)}")
    return bad


def _run_probes(probes: list[str], looked_up: tuple[str, ...], size: str, results: Path) -> list[str]:
    """One after the other; one that fails leaves the others unharmed."""
    from framebench.claims import measure as claim_probes

    failed = []
    for probe in probes:
        try:
            claim_probes.run(probe, looked_up, size, results, say)
        except (RuntimeError, environments.SetupError) as error:
            say(f"probe {probe} failed: {error}")
            failed.append(probe)
    return failed
