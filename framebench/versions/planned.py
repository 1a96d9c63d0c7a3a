"""Compare two releases of a framework by their plans for a device that is not here.

Plans are exact, so one plan of each release is enough.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis.rendering import ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.statistics import NONE, PEAK
from framebench.cli.shared import echo, fail, out, say, show_work
from framebench.devices import catalog
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.planning import ensure_environment, planned_for, select_cases
from framebench.engine.environments import SetupError
from framebench.suite.sequences import drop_duplicates
from framebench.versions.accepted import (
    AcceptedRegression,
    MalformedEntry,
    find_reason,
    read_accepted,
)
from framebench.versions.bisection_record import ReleaseResult
from framebench.versions.judge import (
    IMPROVEMENT,
    REGRESSION,
    UnknownVersion,
    parse_pair,
)
from framebench.versions.measure import PLANNED, select_base_batch
from framebench.versions.newest import ReleasePair

NO_PLAN = "no plan"
MANY_CASES = 10  # cases; for more, the command says how long their plans take
ACCEPTED = "known regression"  # the verdict on one that accepted.toml has
EXAMPLE = "such as 'transformer/jax/train/{fp32,checkpoint}/b8/full'"
ONE_CUDNN = (
    "only one of the two releases is installed with cuDNN, which tells the workspaces of "
    "convolutions"
)
HOW = {
    "jax": "Planned by each release's own compiler, not measured.",
    "torch": "Simulated, in MiB reserved, not measured.",
}


@dataclass(frozen=True)
class PlanBench:
    """Read a release's plan of a case, for a bisection on a device that is not here."""

    case: str
    device: str
    results: Path

    def measure(self, release: str) -> ReleaseResult:
        """Return the peak that a release plans, and say it."""
        framework = self.case.split("/")[1]
        with show_work(f"{framework} {release}: planning for {self.device}"):
            (plan,) = planned_for(
                [self.case], self.device, self.results, say, f"{framework}=={release}"
            )
        values: tuple[float, ...] = ()
        result = f"stepped over: {plan.reason}"
        if plan.peak_bytes is not None:
            values = (float(plan.peak_bytes),)
            result = f"{plan.peak_bytes / MIB:,.2f} MiB"
        say(f"{framework} {release}: {result}")
        return ReleaseResult(
            release=release,
            values=values,
            instrument=plan.source,
            reason=plan.reason,
            versions=plan.origin.versions,
        )


def compare_newest(
    pair: ReleasePair, device: str, results: Path, threshold: float | None, as_json: bool
) -> int:
    """Print how the plans of a framework's newest release and its pinned one differ.

    A release whose planner cannot be installed is skipped for the next older one. Returns the exit
    code of `compare_releases`, or 1 if no newer planner can be installed. Raises UnknownDevice.
    """
    if pair.framework not in HOW:
        say(f"{pair.framework} has no plans for a device that is not here")
        return 0
    if pair.is_current:
        say(pair.explain_why_nothing_is_measured())
        return 0
    cases = []
    for case in select_base_batch(PLANNED):
        if case.framework == pair.framework:
            cases.append(case.id)
    for version in (pair.newest, *pair.older):
        try:
            ensure_environment(pair.framework, catalog.find(device), version, say)
        except SetupError as error:
            say(f"{pair.framework} {version} cannot be installed: {str(error).splitlines()[0]}")
        else:
            releases = replace(pair, newest=version).releases
            return compare_releases(*releases, cases, device, results, threshold, as_json)
    return 1


def compare_releases(
    base: str,
    change: str,
    selectors: Sequence[str],
    device: str,
    results: Path,
    threshold: float | None,
    as_json: bool,
) -> int:
    """Print the predictions of two releases for the same cases, and return the exit code.

    It is 1 if a peak has grown and `accepted.toml` does not have it, 3 if a case has no prediction
    in one of them, and otherwise 0.
    """
    try:
        framework, _, _ = parse_pair(base, change)
        accepted = read_accepted()
    except (UnknownVersion, MalformedEntry) as error:
        fail(str(error), 2)
    if framework not in HOW:
        fail(f"with --device releases of {' and '.join(HOW)} are planned, such as jax==0.9.2", 2)
    if not selectors:
        fail(f"which cases? name some, {EXAMPLE}", 2)
    count = sum(len(select_cases(selector)) for selector in selectors)
    if count >= MANY_CASES:
        say(
            f"planning {count} cases for two releases: a new plan takes seconds to minutes; "
            f"name fewer, {EXAMPLE}"
        )
    with show_work(f"{base} and {change}: planning for {device}"):
        # cached plans of either release are reused
        base_plans = planned_for(selectors, device, results, say, base)
        change_plans = planned_for(selectors, device, results, say, change)
    minimum = PEAK.minimum if threshold is None else threshold
    rows = []
    notes = [HOW[framework]]
    for base_plan, change_plan in zip(base_plans, change_plans):
        row = compare_plans(base_plan, change_plan, minimum)
        if row["verdict"] == REGRESSION:
            row = mark_accepted(row, change, device, accepted)
        rows.append(row)
        if framework == "torch":  # they say what in a simulation is not the release's own
            notes += [*base_plan.notes, *change_plan.notes]
    if as_json:
        echo(json.dumps({"base": base, "change": change, "device": device, "rows": rows}, indent=1))
    else:
        how = " ".join(drop_duplicates(notes))
        caption = f"{how} A regression is {minimum:.0%} more or above."
        make_table(rows, base, change, device, caption).terminal(out)
    verdicts = {row["verdict"] for row in rows}
    if REGRESSION in verdicts:
        return 1
    return 3 if NO_PLAN in verdicts else 0


def mark_accepted(
    row: dict[str, Any], release: str, device: str, accepted: list[AcceptedRegression]
) -> dict[str, Any]:
    """Return the row of a regression with the verdict ACCEPTED, if `accepted` has it."""
    ratio = row["change"] / row["base"]
    reason = find_reason(accepted, release, row["case"], PEAK.name, ratio, device)
    if reason is None:
        return row
    return row | {"verdict": ACCEPTED, "why": f"known: {reason}"}


def make_table(
    rows: Sequence[dict[str, Any]], base: str, change: str, device: str, caption: str
) -> Table:
    """Return the rows of `compare_plans` as a table, with the reason of each verdict below."""
    data = pd.DataFrame(rows).astype({"base": "float", "change": "float"})
    data["difference"] = data["change"] - data["base"]
    data["growth"] = data["change"] / data["base"] - 1
    columns = {
        "case": TableColumn("case"),
        "base": TableColumn(f"{base} MiB", ",.2f", 1 / MIB),
        "change": TableColumn(f"{change} MiB", ",.2f", 1 / MIB),
        "difference": TableColumn("bytes", "+,.0f"),
        "growth": TableColumn("change", "+.2%"),
        "verdict": TableColumn("verdict", priority=ESSENTIAL),
    }
    return Table(
        f"What {change} plans for one {device} against {base}",
        caption,
        data,
        columns,
        left=1,
        notes=tuple(f"{row['case']}: {row['why']}" for row in rows if row["why"]),
    )


def compare_plans(base: Planned, change: Planned, minimum: float) -> dict[str, Any]:
    """Return two releases' plans of one case in bytes, with a verdict on the growth.

    `why` says why there is no verdict. Growth up to the share `minimum` of the base is no change.
    """
    why = explain_no_verdict(base, change)
    verdict = NO_PLAN
    if not why and base.peak_bytes and change.peak_bytes is not None:
        growth = change.peak_bytes / base.peak_bytes - 1
        if abs(growth) <= minimum:
            verdict = NONE
        elif growth > 0:
            verdict = REGRESSION
        else:
            verdict = IMPROVEMENT
    return {
        "case": base.case,
        "base": base.peak_bytes,
        "change": change.peak_bytes,
        "why": why,
        "verdict": verdict,
    }


def explain_no_verdict(base: Planned, change: Planned) -> str:
    """Return why two plans cannot be compared, or "" if they can."""
    both = (base, change)
    reasons = [f"{plan.framework_version}: {plan.reason}" for plan in both if plan.reason]
    if reasons:
        return "; ".join(reasons)
    # the workspaces of cuDNN, which only one plan has, would be taken for a growth
    plans_with_cudnn = []
    for plan in both:
        if plan.has_convolutions and "cudnn" in plan.origin.versions:
            plans_with_cudnn.append(plan)
    return ONE_CUDNN if len(plans_with_cudnn) == 1 else ""
