"""Two releases of a framework by what they plan for a device that is not here. A plan is exact: one of each is enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from framebench.analysis.comparison import ESSENTIAL, MIB, Comparison, Shown, mib, number
from framebench.analysis.statistics import PEAK
from framebench.cli.shared import err, fail, out, say
from framebench.devices.plans.planning import planned_for
from framebench.engine import releases
from framebench.versions.bisected_record import Tried

REGRESSION, IMPROVEMENT, NONE, NO_PLAN = "regression", "improvement", "no difference", "no plan"
LAST = 8  # releases
ONE_CUDNN = "only one of the two releases is installed with cuDNN, which tells the workspaces of convolutions"
TOLD = {"jax": "Planned by each release's own compiler, not measured.", "torch": "Simulated, in MiB reserved, not measured."}


class Row(NamedTuple):
    """Bytes; None where a release has no plan, for which `why` has the reason."""

    case: str
    base: int | None
    change: int | None
    why: str
    rules: str = ""  # of a simulation, what in it is not the release's own

    def verdict(self, minimum: float) -> str:
        if not self.base or self.change is None:
            return NO_PLAN
        grown = self.change / self.base - 1
        return REGRESSION if grown > minimum else IMPROVEMENT if grown < -minimum else NONE


def compare(
    base: str, change: str, selectors: Sequence[str], device: str, results: Path, threshold: float | None, as_json: bool
) -> int:  # fmt: skip
    """Print both releases' plans of the cases. Returns the exit code."""
    if (framework := _framework(base)) != _framework(change):
        fail(f"{base} and {change} are releases of two frameworks, and their plans have nothing in common", 2)
    with err.status(f"{base} and {change}: {device}"):
        before, after = (planned_for(_named(selectors), device, results, say, release) for release in (base, change))
    rows = [_row(*pair) for pair in zip(before, after)]
    minimum = PEAK.minimum if threshold is None else threshold
    verdicts = [row.verdict(minimum) for row in rows]
    if as_json:
        judged = [row._asdict() | {"verdict": verdict} for row, verdict in zip(rows, verdicts)]
        typer.echo(json.dumps({"base": base, "change": change, "device": device, "rows": judged}, indent=1))
    else:
        told = dict.fromkeys([TOLD[framework], *(row.rules for row in rows if row.rules)])
        table(base, change, device, rows, minimum, " ".join(told)).terminal(out)
    return 1 if REGRESSION in verdicts else 3 if NO_PLAN in verdicts else 0


def run(framework: str, wanted: list[str] | None, selectors: Sequence[str], device: str, results: Path) -> int:
    """Print what releases plan, of JAX the newest LAST unless some are named. Returns the exit code."""
    if framework != "jax" and not wanted:
        fail("which releases? name some by --version: without it JAX's last are planned, others take gigabytes each", 2)
    chosen = [f"{framework}=={version}" for version in wanted or releases.listed(framework)[-LAST:]]
    for release in chosen:
        _framework(release)
    from framebench.devices.releases.table import on_device

    with err.status(f"{device}: {', '.join(chosen)}"):
        made = on_device(_named(selectors), device, chosen, results, say)
    made.terminal(out)
    return 3 if made.notes else 0


def measure(case: str, device: str, results: Path) -> Callable[[str], Tried]:
    """What a bisection asks of a release: its plan, which is exact."""
    framework = case.split("/")[1]

    def tried(release: str) -> Tried:
        with err.status(f"{device}: {framework} {release}"):
            (told,) = planned_for([case], device, results, say, f"{framework}=={release}")
        values = () if told.peak_bytes is None else (float(told.peak_bytes),)
        say(f"{framework} {release}: " + (f"{values[0] / MIB:,.2f} MiB" if values else f"stepped over: {told.reason}"))
        return Tried(release=release, values=values, instrument=told.source, reason=told.reason, versions=told.origin.versions)

    return tried


def _named(selectors: Sequence[str]) -> Sequence[str]:
    if not selectors:
        fail("which cases? name some, such as 'transformer/jax/train/{fp32,checkpoint}/b8/full'", 2)
    return selectors


def _framework(release: str) -> str:
    """Of a release such as jax==0.9.2."""
    framework, _, version = release.partition("==")
    if framework not in TOLD or not version:
        fail(f"{release!r}: with --device releases of {' and '.join(TOLD)} are planned, such as jax==0.9.2", 2)
    return framework


def _row(base: Any, change: Any) -> Row:
    """Of two predictions of one case."""
    why = "; ".join(f"{p.framework_version}: {p.reason}" for p in (base, change) if p.reason)
    if not why and len({"cudnn" in p.origin.versions for p in (base, change)}) > 1:
        return Row(base.case, None, None, ONE_CUDNN)
    rules = dict.fromkeys(note for p in (base, change) for note in p.notes) if base.framework == "torch" else ()
    return Row(base.case, base.peak_bytes, change.peak_bytes, why, " ".join(rules))


def table(base: str, change: str, device: str, rows: Sequence[Row], minimum: float, told: str) -> Comparison:
    """Plans to the byte, and their difference."""
    lines = tuple(
        (
            row.case,
            mib(row.base, ",.2f"),
            mib(row.change, ",.2f"),
            "-" if None in (row.base, row.change) else f"{(row.change or 0) - (row.base or 0):+,}",
            number(None if row.base is None or row.change is None else row.change / row.base - 1, "+.2%"),
            row.verdict(minimum),
        )
        for row in rows
    )
    return Comparison.of_text(
        f"What {change} plans for one {device} against {base}",
        f"{told} A regression is {minimum:.0%} more or above.",
        ("case", f"{base} MiB", f"{change} MiB", "bytes", "change", Shown("verdict", priority=ESSENTIAL)),
        lines,
        left=1,
        notes=tuple(f"{row.case}: {row.why}" for row in rows if row.why),
    )
