"""Two releases of a framework by what they plan for a device that is not here.

A plan is exact: one of each is enough.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from framebench.analysis.rendering import ESSENTIAL, MIB, Table, TableColumn
from framebench.analysis.statistics import PEAK
from framebench.cli.shared import echo, err, fail, out, say
from framebench.devices import catalog
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.planning import ensure_environment, planned_for
from framebench.engine import releases
from framebench.engine.environments import SetupError
from framebench.versions.bisection_record import ReleaseResult

REGRESSION, IMPROVEMENT, NONE, NO_PLAN = "regression", "improvement", "no difference", "no plan"
LAST = 8  # releases
ONE_CUDNN = (
    "only one of the two releases is installed with cuDNN, which tells the workspaces of "
    "convolutions"
)
HOW = {
    "jax": "Planned by each release's own compiler, not measured.",
    "torch": "Simulated, in MiB reserved, not measured.",
}


@dataclass(frozen=True)
class PlanComparison:
    """The plans of one case in bytes; None where a release has no plan, for which `why` has the
    reason.
    """

    case: str
    base: int | None
    change: int | None
    why: str
    rules: str = ""  # of a simulation, what in it is not the release's own

    def verdict(self, minimum: float) -> str:
        """Return whether the plan grew or shrank by more than a share."""
        if not self.base or self.change is None:
            return NO_PLAN
        growth = self.change / self.base - 1
        if growth > minimum:
            return REGRESSION
        return IMPROVEMENT if growth < -minimum else NONE


@dataclass(frozen=True)
class PlanBench:
    """How a bisection asks for a release's plan of a case on a device that is not here."""

    case: str
    device: str
    results: Path

    def measure(self, release: str) -> ReleaseResult:
        """Return the peak that a release plans, and say it."""
        framework = self.case.split("/")[1]
        with err.status(f"{self.device}: {framework} {release}"):
            (plan,) = planned_for(
                [self.case], self.device, self.results, say, f"{framework}=={release}"
            )
        if plan.peak_bytes is None:
            values: tuple[float, ...] = ()
            say(f"{framework} {release}: stepped over: {plan.reason}")
        else:
            values = (float(plan.peak_bytes),)
            say(f"{framework} {release}: {plan.peak_bytes / MIB:,.2f} MiB")
        return ReleaseResult(
            release=release,
            values=values,
            instrument=plan.source,
            reason=plan.reason,
            versions=plan.origin.versions,
        )


def find_installable(framework: str, versions: Sequence[str], device: str) -> str | None:
    """Return the first of the releases whose planner can be installed, or None.

    Raises UnknownDevice.
    """
    for version in versions:
        try:
            ensure_environment(framework, catalog.find(device), version, say)
        except SetupError as error:
            say(f"{framework} {version} cannot be installed: {str(error).splitlines()[0]}")
        else:
            return version
    return None


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

    It is 1 if a peak has grown, 3 if a case has no prediction in one of them, and otherwise 0.
    """
    framework = check_release(base)
    if check_release(change) != framework:
        fail(
            f"{base} and {change} are releases of two frameworks, and their plans have "
            "nothing in common",
            2,
        )
    check_named(selectors)
    with err.status(f"{base} and {change}: {device}"):
        base_plans = planned_for(selectors, device, results, say, base)
        change_plans = planned_for(selectors, device, results, say, change)
    comparisons = [compare_plans(*plans) for plans in zip(base_plans, change_plans)]
    minimum = PEAK.minimum if threshold is None else threshold
    verdicts = [comparison.verdict(minimum) for comparison in comparisons]
    if as_json:
        rows = [
            {**asdict(comparison), "verdict": verdict}
            for comparison, verdict in zip(comparisons, verdicts)
        ]
        echo(json.dumps({"base": base, "change": change, "device": device, "rows": rows}, indent=1))
    else:
        how = [HOW[framework]]
        for comparison in comparisons:
            if comparison.rules and comparison.rules not in how:
                how.append(comparison.rules)
        make_table(base, change, device, comparisons, minimum, " ".join(how)).terminal(out)
    if REGRESSION in verdicts:
        return 1
    return 3 if NO_PLAN in verdicts else 0


def run(
    framework: str, versions: list[str] | None, selectors: Sequence[str], device: str, results: Path
) -> int:
    """Print what releases plan, of JAX the newest LAST unless some are named.

    Returns the exit code.
    """
    if framework != "jax" and not versions:
        fail(
            "which releases? name some by --version: without it JAX's last are planned, "
            "others take gigabytes each",
            2,
        )
    chosen = [
        f"{framework}=={version}"
        for version in versions or releases.list_releases(framework)[-LAST:]
    ]
    for release in chosen:
        check_release(release)
    check_named(selectors)
    from framebench.devices.releases.table import on_device

    with err.status(f"{device}: {', '.join(chosen)}"):
        table = on_device(selectors, device, chosen, results, say)
    table.terminal(out)
    return 3 if table.notes else 0


def check_named(selectors: Sequence[str]) -> None:
    """End the command if no case is named."""
    if not selectors:
        fail("which cases? name some, such as 'transformer/jax/train/{fp32,checkpoint}/b8/full'", 2)


def check_release(release: str) -> str:
    """Return the framework of a release such as jax==0.9.2, or end the command if it has no
    plans.
    """
    framework, _, version = release.partition("==")
    if framework not in HOW or not version:
        fail(
            f"{release!r}: with --device releases of {' and '.join(HOW)} are planned, such as "
            "jax==0.9.2",
            2,
        )
    return framework


def compare_plans(base: Planned, change: Planned) -> PlanComparison:
    """Compare two releases' plans of one case."""
    both = (base, change)
    why = "; ".join(f"{plan.framework_version}: {plan.reason}" for plan in both if plan.reason)
    has_cudnn = {"cudnn" in plan.origin.versions for plan in both}
    if not why and len(has_cudnn) > 1:
        return PlanComparison(base.case, None, None, ONE_CUDNN)
    rules: list[str] = []
    if base.framework == "torch":
        for note in (*base.notes, *change.notes):
            if note not in rules:
                rules.append(note)
    return PlanComparison(base.case, base.peak_bytes, change.peak_bytes, why, " ".join(rules))


def make_table(
    base: str,
    change: str,
    device: str,
    comparisons: Sequence[PlanComparison],
    minimum: float,
    how: str,
) -> Table:
    """Return a row for each case: both plans in MiB, their difference in bytes, and the verdict."""
    columns = {
        "case": TableColumn("case"),
        "base_bytes": TableColumn(f"{base} MiB", ",.2f", 1 / MIB),
        "change_bytes": TableColumn(f"{change} MiB", ",.2f", 1 / MIB),
        "difference_bytes": TableColumn("bytes", "+,.0f"),
        "growth": TableColumn("change", "+.2%"),
        "verdict": TableColumn("verdict", priority=ESSENTIAL),
    }
    data = pd.DataFrame([asdict(comparison) for comparison in comparisons])
    data = data.rename(columns={"base": "base_bytes", "change": "change_bytes"})
    data = data.astype({"base_bytes": "float", "change_bytes": "float"})
    data["difference_bytes"] = data["change_bytes"] - data["base_bytes"]
    data["growth"] = data["change_bytes"] / data["base_bytes"] - 1
    data["verdict"] = [comparison.verdict(minimum) for comparison in comparisons]
    return Table(
        f"What {change} plans for one {device} against {base}",
        f"{how} A regression is {minimum:.0%} more or above.",
        data,
        columns,
        left=1,
        notes=tuple(
            f"{comparison.case}: {comparison.why}" for comparison in comparisons if comparison.why
        ),
    )
