"""The table of a bisection over releases."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from packaging.version import Version

from framebench.analysis.rendering import ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.records import store
from framebench.versions.bisection_record import FLOOR, Bisection, ReleaseResult

LONGEST_REASON = 100  # characters


def make_documents(results: Results) -> list[Table]:
    """Return a table of each bisection that was saved."""
    return [make_table(bisection) for bisection in read_saved(results.root)]


def read_saved(results: Path) -> list[Bisection]:
    """Return what `framebench versions bisect --json` printed and was put into the folder
    `bisected`.
    """
    files = sorted((results / "bisected").glob("*.json"))
    return [store.read_model(Bisection, file) for file in files]


def make_table(bisection: Bisection) -> Table:
    """Return every release that was tried, oldest first, with its change against the oldest that
    runs, and the answer.
    """
    framework, quantity = bisection.framework, bisection.quantity
    if quantity == "peak":
        value_column = TableColumn("peak (MiB)", ",.2f", 2**-20)
    else:
        value_column = TableColumn("instructions (million)", ",.2f", 1e-6)
    columns = {
        "release": TableColumn(framework),
        "value": value_column,
        "processes": TableColumn("processes", ".0f"),
        "noise": TableColumn("noise", ".1%"),
        "change": TableColumn("change", "+.1%"),
        "verdict": TableColumn("verdict", priority=ESSENTIAL),
        "beside": TableColumn("beside it"),
    }
    results = sorted(bisection.tried, key=lambda result: Version(result.release))
    base = next((result for result in results if result.values), None)
    rows = [make_row(result, base, bisection) for result in results]

    device = f" on one {bisection.device}" if bisection.device else ""
    how = "planned, not measured" if bisection.device else "median over fresh processes"
    answer = f"{bisection.answer[0].upper()}{bisection.answer[1:]}"
    caption = (
        f"{answer}. {quantity}: {how}. A release has changed if it differs from the oldest that "
        "runs by more than "
        f"{bisection.threshold:.1%}, and by more than the processes of either differ (at least "
        f"{FLOOR:.1%}). "
        "Named is the first that answered as the newest does. What cannot be installed, run or "
        "verified is stepped over."
    )
    title = f"Releases of {framework}: {bisection.case}{device}"
    return Table(title, caption, pd.DataFrame(rows, columns=list(columns)), columns, left=1)


def make_row(
    result: ReleaseResult, base: ReleaseResult | None, bisection: Bisection
) -> dict[str, object]:
    """Return the values of a release by column."""
    if result.value is None or base is None:
        return {
            "release": result.release,
            "verdict": "stepped over",
            "beside": shorten(result.reason or ""),
        }
    return {
        "release": result.release,
        "value": result.value,
        "processes": len(result.values),
        "noise": result.noise,
        "change": result.change(base),
        "verdict": describe_verdict(result, base, bisection.threshold),
        "beside": ", ".join(list_other_changes(result, base, bisection.framework)),
    }


def describe_verdict(result: ReleaseResult, base: ReleaseResult, minimum: float) -> str:
    """Return whether a release changed."""
    if result is base:
        return "base"
    changed = result.changed(base, minimum)
    if changed is None:
        return "undecided"
    return "changed" if changed else "unchanged"


def list_other_changes(result: ReleaseResult, base: ReleaseResult, framework: str) -> list[str]:
    """Return the packages that differ from the base's, apart from the framework's own."""
    changes = []
    for name, version in result.versions.items():
        if not name.startswith(framework) and version != base.versions.get(name):
            changes.append(f"{name} {version}")
    return changes


def shorten(reason: str) -> str:
    """Return the first line of a reason, cut off if it is long."""
    line = reason.splitlines()[0] if reason else ""
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
