"""What a bisection over releases tried, for people."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from framebench.analysis.comparison import ESSENTIAL, Comparison, Shown, number
from framebench.analysis.results import Results
from framebench.versions.bisected_record import FLOOR, Bisected, Tried

WIDTH = 100  # characters of a reason


def kept(results: Path) -> list[Bisected]:
    """What `framebench versions bisect --json` said and was put into the folder `bisected`."""
    return [Bisected.model_validate_json(f.read_bytes()) for f in sorted((results / "bisected").glob("*.json"))]


def table(bisection: Bisected) -> Comparison:
    """Every release that was tried, oldest first: its value, its change against the oldest that runs, and the answer."""
    ordered = sorted(bisection.tried, key=lambda t: Version(t.release))
    base = next((t for t in ordered if t.values), None)
    unit, factor = ("MiB", 2**-20) if bisection.quantity == "peak" else ("million", 1e-6)
    told = "planned, not measured" if bisection.device else "median over fresh processes"
    rows = tuple(row(t, base, bisection.threshold, factor, bisection.framework) for t in ordered)
    return Comparison.of_text(
        f"Releases of {bisection.framework}: {bisection.case}" + (f" on one {bisection.device}" if bisection.device else ""),
        f"{bisection.answer[0].upper()}{bisection.answer[1:]}. {bisection.quantity}: {told}. A release "
        f"has changed if "
        f"it differs from the oldest that runs by more than {bisection.threshold:.1%}, and by more than the processes of "
        f"either "
        f"differ (at least {FLOOR:.1%}). Named is the "
        "first that answered as the newest does. What cannot be installed, run or verified is stepped over.",
        (
            bisection.framework,
            f"{bisection.quantity} ({unit})",
            "processes",
            "noise",
            "change",
            Shown("verdict", priority=ESSENTIAL),
            "beside it",
        ),
        rows,
        left=1,
    )


def row(one: Tried, base: Tried | None, minimum: float, factor: float, framework: str) -> tuple[str, ...]:
    if one.value is None or base is None:
        return one.release, "-", "-", "-", "-", "stepped over", _shortened(one.reason or "")
    change = one.change(base)
    verdict = {True: "changed", False: "unchanged", None: "undecided"}[one.changed(base, minimum)]
    others = [name for name in one.versions if not name.startswith(framework) and one.versions[name] != base.versions.get(name)]
    return (
        one.release, number(one.value, ",.2f", factor), str(len(one.values)), f"{one.noise:.1%}", number(change, "+.1%"),
        "base" if one is base else verdict, ", ".join(f"{name} {one.versions[name]}" for name in others),
    )  # fmt: skip


def _shortened(reason: str) -> str:
    line = reason.splitlines()[0] if reason else ""
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}..."


def documents(results: Results) -> list[Comparison]:
    """A table of each bisection."""
    return [table(outcome) for outcome in kept(results.root)]
