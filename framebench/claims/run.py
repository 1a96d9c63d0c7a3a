"""Measure what claims lack on this machine, for `framebench claims --run`."""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.results import Results
from framebench.claims import measure
from framebench.claims.claim import Claim
from framebench.claims.ledger import list_names
from framebench.claims.missing import Missing, find_missing
from framebench.claims.plans import GPU
from framebench.claims.registry import REGISTRY
from framebench.claims.store import MachineResults
from framebench.cli.measuring import measure_all
from framebench.cli.shared import BROKEN, open_session, say
from framebench.devices.plans.planning import planned_for
from framebench.engine import environments, runner
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case


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
    here = MachineResults(Results(results), provenance.read_machine_name())
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
    ready = {}
    for name in FRAMEWORKS:
        if name in frameworks:
            ready[name] = environments.ensure(name, say=say)
            environments.warm(ready[name], "standard", say)
    pairs = []
    timed = dict.fromkeys(missing.timed)  # each once, in order
    for pair in missing.pairs:
        if not any(map(runner.explain_unsupported, pair)):
            pairs.append(pair)
            timed |= dict.fromkeys(pair)
    failed = []
    for cases, times, together in ((timed, blocks, pairs), (missing.once, 1, [])):
        able = [case for case in cases if not runner.explain_unsupported(case)]
        statuses = measure_all(able, opened, ready, options, results, times, together)
        for case, status in zip(able, statuses, strict=True):
            if status in BROKEN:
                failed.append(case.id)
    if failed:
        say(f"these failed: {', '.join(failed)}")
    return failed


def plan_cases(cases: list[Case], results: Path) -> list[str]:
    """Plan cases for the GPU of the planned measurements. Return the ids of those that failed."""
    if not cases:
        return []
    hint = ""
    if results == runner.RESULTS:
        hint = "; `framebench dev publish` puts them where claims read them"
    say(f"{len(cases)} cases are planned for {GPU}{hint}")
    planned = planned_for(cases, GPU, results, say)
    return [one.case for one in planned if one.outcome == "failed"]
