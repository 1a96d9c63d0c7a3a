"""Compare two releases of a framework by their plans for a device that is not here.

Plans are exact, so one plan of each release is enough.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis.rendering import DETAIL, ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.rows import join_words
from framebench.analysis.statistics import PEAK
from framebench.cli.shared import echo, fail, out, repeat_options, say, show_work
from framebench.devices import catalog
from framebench.devices.catalog import Device
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.planning import (
    count_workers,
    ensure_environment,
    find_cached,
    planned_for,
    select_cases,
    sum_typical_seconds,
)
from framebench.devices.show import plan_with_progress
from framebench.engine.environments import SetupError
from framebench.engine.progress import format_duration
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.selectors import is_broad
from framebench.suite.sequences import drop_duplicates
from framebench.versions.accepted import (
    AcceptedRegression,
    MalformedEntry,
    explain_exit,
    find_reason,
    read_accepted,
)
from framebench.versions.bisection_record import ReleaseResult
from framebench.versions.judge import (
    IMPROVEMENT,
    REGRESSION,
    UnknownVersion,
    judge_growth,
    parse_pair,
    suggest_bisect,
)
from framebench.versions.measure import PLANNED, select_base_batch, suggest_own_cases
from framebench.versions.newest import ReleasePair

NO_PLAN = "no plan"
ACCEPTED = "known regression"  # the verdict on one that accepted.toml has
ONE_CUDNN = (
    "only one of the two releases is installed with cuDNN, from which the workspaces of "
    "convolutions are known"
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
        framework = Case.from_id(self.case).framework
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
    cases = [case.id for case in list_usual(pair.framework)]
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
    plan_missing: bool = False,
) -> int:
    """Print the plans of two releases for the same cases, and return the exit code.

    It is 1 if a peak has grown and `accepted.toml` does not have it, 3 if a case has no plan in one
    of them, and otherwise 0.

    Without selectors the cases are those of which both releases have a cached plan, and nothing is
    planned anew. With `plan_missing` they are also those of PLANNED, planned where a plan is
    missing. Of broad selectors too, cases without cached plans are planned only then.
    """
    try:
        framework, old, new = parse_pair(base, change)
        accepted = read_accepted()
    except (UnknownVersion, MalformedEntry) as error:
        fail(str(error), 2)
    if framework not in HOW:
        fail(f"with --device releases of {' and '.join(HOW)} are planned, such as jax==0.9.2", 2)
    target = catalog.find(device)
    if selectors:
        cases = choose_named(selectors, base, change, target, results, plan_missing)
    else:
        cases = choose_default_cases(base, change, target, results, plan_missing)
    base_plans = plan_with_progress(cases, target, results, version=old)
    change_plans = plan_with_progress(cases, target, results, version=new)
    minimum = PEAK.minimum if threshold is None else threshold
    rows = []
    notes = [HOW[framework]]
    for base_plan, change_plan in zip(base_plans, change_plans):
        row = compare_plans(base_plan, change_plan, minimum)
        if row["verdict"] == REGRESSION:
            row = mark_accepted(row, change, target.name, accepted)
        rows.append(row)
        if framework == "torch":  # notes on what a simulation takes from another release
            notes += [*base_plan.notes, *change_plan.notes]
    if as_json:
        content = {"base": base, "change": change, "device": target.name, "rows": rows}
        echo(json.dumps(content, indent=1))
    else:
        how = " ".join(drop_duplicates(notes))
        caption = f"{how} A regression is more than {minimum * 100:g} % above."
        say(describe_rows(rows, base, change, target.name))
        make_table(rows, base, change, target.name, caption).terminal(out)
        if not selectors and not plan_missing:
            say(
                "These cases have cached predictions of both releases. Name cases to compare those "
                "alone, such as unet3d/jax/train."
            )
    verdicts = {row["verdict"] for row in rows}
    if REGRESSION in verdicts:
        say(f"{suggest_bisection(rows, base, change, target.name)}{repeat_options(results)}")
        say(explain_exit(list_regressions(rows)))
        return 1
    return 3 if NO_PLAN in verdicts else 0


def choose_default_cases(
    base: str, change: str, device: Device, results: Path, plan_missing: bool
) -> list[Case]:
    """Return the cases to compare when none is named: those of which both releases cached a plan.

    With `plan_missing` they are also those of `list_usual`, cached or not. Ends the command if
    there is none.
    """
    framework, old, new = parse_pair(base, change)
    cases = find_cached_by_both(select_cases(f"*/{framework}"), old, new, device, results)
    if plan_missing:
        cases = drop_duplicates([*cases, *list_usual(framework)])
    if not cases:
        fail(explain_no_cached(base, change, device, results), 2)
    return cases


def choose_named(
    selectors: Sequence[str],
    base: str,
    change: str,
    device: Device,
    results: Path,
    plan_missing: bool,
) -> list[Case]:
    """Return the cases of the releases' framework that selectors name.

    Unless `plan_missing`, only those with cached plans of both releases are returned of broad
    selectors (`is_broad`), and what plans the others is said. Ends the command if there is none.
    Raises UnknownCase.
    """
    framework, old, new = parse_pair(base, change)
    broad = [selector for selector in selectors if is_broad(selector) and not plan_missing]
    precise = [selector for selector in selectors if selector not in broad]
    cases: list[Case] = []
    if precise:
        cases, unsupported_count = select_supported(precise, framework)
        if unsupported_count:
            skipped = format_count(unsupported_count, "case")
            say(f"{skipped} skipped, which {framework} does not have")
    if not broad:
        return cases
    supported, _ = select_supported(broad, framework)
    browsed = [case for case in supported if case not in cases]
    cached = find_cached_by_both(browsed, old, new, device, results)
    missing_count = len(browsed) - len(cached)
    command = shlex.join(["framebench", "versions", "compare", base, change, *selectors])
    command += f" --device {device.name} --plan{repeat_options(results)}"
    hint = f"{command} plans them{estimate_plans(browsed, (old, new), device, results)}"
    if not cases and not cached:
        both = format_count(len(browsed), "case")
        fail(f"none of {both} has cached plans of {base} and {change}; {hint}", 2)
    if missing_count:
        of_all = f"{missing_count} of {format_count(len(browsed), 'case')}"
        say(f"{of_all} have no cached plans of both and are left out; {hint}")
    return [*cases, *cached]


def estimate_plans(
    cases: Sequence[Case], releases: Sequence[str], device: Device, results: Path
) -> str:
    """Return how long the plans take that releases have not cached, or "" if that is not known."""
    total = 0.0
    for release in releases:
        cached = find_cached(cases, device, results, release)
        missing = [case for case in cases if case not in cached]
        seconds = sum_typical_seconds(missing, device, results)
        if seconds is None:
            return ""
        total += seconds / count_workers(device)
    return f" in about {format_duration(total)}"


def select_supported(selectors: Sequence[str], framework: str) -> tuple[list[Case], int]:
    """Return the cases of a framework that selectors name, and how many it does not support.

    Ends the command if there is none. Raises UnknownCase.
    """
    selected: list[Case] = []
    for selector in selectors:
        selected += select_cases(selector)
    cases = [case for case in drop_duplicates(selected) if case.framework == framework]
    supported = [case for case in cases if case.support.supported]
    if not cases:
        fail(
            f"none of these cases is one of {framework}{suggest_own_cases(framework, selectors)}",
            2,
        )
    if not supported:
        fail(f"{cases[0].id}: unsupported: {cases[0].support.why}", 2)
    return supported, len(cases) - len(supported)


def list_usual(framework: str) -> list[Case]:
    """Return the cases by which releases of a framework are compared when none is named."""
    return [case for case in select_base_batch(PLANNED) if case.framework == framework]


def find_cached_by_both(
    cases: Sequence[Case], old: str, new: str, device: Device, results: Path
) -> list[Case]:
    """Return the cases of which both releases have a cached peak."""
    old_plans = find_cached(cases, device, results, old)
    new_plans = find_cached(cases, device, results, new)
    planned_by_both = []
    for case in cases:
        plans = (old_plans.get(case), new_plans.get(case))
        if all(plan is not None and plan.peak_bytes is not None for plan in plans):
            planned_by_both.append(case)
    return planned_by_both


def explain_no_cached(base: str, change: str, device: Device, results: Path) -> str:
    """Return the message that no case has cached plans of both releases.

    It names the releases with cached plans, and the command that plans both.
    """
    framework, _, _ = parse_pair(base, change)
    cached = set()
    for root in drop_duplicates((results, store.choose_writable_folder(results))):
        for file in (root / store.FOLDER / device.name).glob(f"{framework}-*.jsonl"):
            cached.add(file.stem.replace("-", "==", 1))
    options = f"--device {device.name}{repeat_options(results)}"
    return (
        f"no case has cached predictions of both {base} and {change} for {device.name}; there are "
        f"some of: {', '.join(sorted(cached)) or 'no release'}; to plan "
        f"{format_count(len(list_usual(framework)), 'case')} of both, which takes minutes: "
        f"framebench versions compare {base} {change} {options} --plan"
    )


def describe_rows(rows: Sequence[dict[str, Any]], base: str, change: str, device: str) -> str:
    """Return in how many cases the newer release plans more and less, and of which models."""
    counts = Counter(row["verdict"] for row in rows)
    grown = list_workloads_with(rows, (REGRESSION, ACCEPTED))
    shrunk = list_workloads_with(rows, (IMPROVEMENT,))
    known = f", {counts[ACCEPTED]} of them known" if counts[ACCEPTED] else ""
    text = (
        f"{change} against {base}, planned for one {device}: the peak is larger in "
        f"{counts[REGRESSION] + counts[ACCEPTED]} of {format_count(len(rows), 'case')}{grown}"
        f"{known}, smaller in {counts[IMPROVEMENT]}{shrunk}"
    )
    if counts[NO_PLAN]:
        text += f", not known in {counts[NO_PLAN]}"
    return f"{text}."


def list_workloads_with(rows: Sequence[dict[str, Any]], verdicts: Sequence[str]) -> str:
    """Return the workloads of the rows with one of these verdicts in brackets, or ""."""
    workloads = []
    for row in rows:
        if row["verdict"] in verdicts:
            workloads.append(Case.from_id(row["case"]).workload)
    return f" ({join_words(drop_duplicates(workloads))})" if workloads else ""


def list_regressions(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return each regression in words, the largest first."""
    growths = []
    for row in rows:
        if row["verdict"] == REGRESSION:
            growths.append((row["change"] / row["base"] - 1, row["case"]))
    return [f"{case} {growth:+.2%}" for growth, case in sorted(growths, reverse=True)]


def suggest_bisection(rows: Sequence[dict[str, Any]], base: str, change: str, device: str) -> str:
    """Return a hint with the command that finds where the largest new regression began."""
    regressions = [row for row in rows if row["verdict"] == REGRESSION]
    largest = max(regressions, key=lambda row: float(row["change"] / row["base"]))
    return f"which release: {suggest_bisect(base, change, largest['case'])} --device {device}"


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
    _, old, new = parse_pair(base, change)
    data = pd.DataFrame(rows).astype({"base": "float", "change": "float"})
    data["difference"] = data["change"] - data["base"]
    data["growth"] = data["change"] / data["base"] - 1
    columns = {
        "case": TableColumn("case"),
        "base": TableColumn(f"{old} MiB", ",.2f", 1 / MIB),
        "change": TableColumn(f"{new} MiB", ",.2f", 1 / MIB),
        "difference": TableColumn("bytes", "+,.0f", priority=DETAIL),
        "growth": TableColumn("change", "+.2%", priority=ESSENTIAL),
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
        verdict = judge_growth(base.peak_bytes, change.peak_bytes, minimum)
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
