"""Make the table of a bisection over releases."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from packaging.version import Version

from framebench.analysis.rendering import ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.records import store
from framebench.versions.bisection_record import FLOOR, Bisection, ReleaseResult

LONGEST_REASON = 100  # characters
COLUMNS = {
    "release": TableColumn("release"),
    "value": TableColumn("peak (MiB)", ",.2f", 2**-20),
    "processes": TableColumn("processes", ".0f"),
    "noise": TableColumn("noise", ".1%"),
    "change": TableColumn("change", "+.1%"),
    "verdict": TableColumn("verdict", priority=ESSENTIAL),
    "note": TableColumn("beside it"),
}


def make_documents(results: Results) -> list[Table]:
    """Return a table of each bisection that was saved."""
    return [make_table(bisection) for bisection in read_saved(results.root)]


def read_saved(results: Path) -> list[Bisection]:
    """Return the bisections that were put into the folder `bisected`.

    `framebench versions bisect --json` prints them. Files that cannot be read are named in
    RecordWarnings.
    """
    files = sorted((results / "bisected").glob("*.json"))
    return store.read_models(Bisection, files)


def make_table(bisection: Bisection) -> Table:
    """Return a table of every release that was tried, oldest first, with the answer.

    Each row has the change against the oldest release that runs.
    """
    results = sorted(bisection.tried, key=lambda result: Version(result.release))
    # changes are told against the oldest that runs, as the search does
    base = next((result for result in results if result.values), None)
    rows = [make_row(result, base, bisection) for result in results]
    title = f"Releases of {bisection.framework}: {bisection.case}"
    how = "median over fresh processes"
    if bisection.device:
        title += f" on one {bisection.device}"
        how = "planned, not measured"
    # progress lines name another instrument, the one that all frameworks have
    instruments = sorted({result.instrument for result in results if result.instrument})
    peak = f"peak by {', '.join(instruments)}" if instruments else "peak"
    answer = bisection.answer[:1].upper() + bisection.answer[1:]
    caption = (
        f"{answer}. {peak}: {how}. A release has changed if it differs from the oldest that runs "
        f"by more than {bisection.threshold:.1%}, and by more than the processes of either differ "
        f"(at least {FLOOR:.1%}). Named is the first that answered as the newest does. What cannot "
        "be installed, run or verified is stepped over."
    )
    columns = COLUMNS | {"release": TableColumn(bisection.framework)}
    return Table(title, caption, pd.DataFrame(rows, columns=list(columns)), columns, left=1)


def make_row(
    result: ReleaseResult, base: ReleaseResult | None, bisection: Bisection
) -> dict[str, object]:
    """Return the values of a release by column."""
    if base is None or not result.values:
        first_line = (result.reason or "").partition("\n")[0]
        if len(first_line) > LONGEST_REASON:
            first_line = f"{first_line[:LONGEST_REASON]}..."
        return {"release": result.release, "verdict": "stepped over", "note": first_line}
    verdicts = {None: "undecided", True: "changed", False: "unchanged"}
    verdict = verdicts[result.has_changed(base, bisection.threshold)]
    others = []  # packages that differ from the base's, apart from the framework's own
    for name, version in result.versions.items():
        if not name.startswith(bisection.framework) and version != base.versions.get(name):
            others.append(f"{name} {version}")
    return {
        "release": result.release,
        "value": result.value,
        "processes": len(result.values),
        "noise": result.noise,
        "change": result.compute_change(base),
        "verdict": "base" if result is base else verdict,
        "note": ", ".join(others),
    }
