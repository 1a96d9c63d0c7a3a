"""Count and list the bugs that `make mutants` planted in the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from framebench.analysis.rendering import Table
from framebench.strategies.strategy import FRAMEWORKS, TITLES
from tests.mutants.outcomes import Campaign, Row, read


def comparisons(file: Path) -> list[Table]:
    """The count, then each framework's bugs, if any were planted."""
    if not file.exists():
        return []
    campaign = read(file)
    return [counts(campaign), *listed(campaign)]


def counts(campaign: Campaign) -> Table:
    kinds = sorted({(row.framework, row.precision) for row in campaign.planted})
    alike = [
        [row for row in campaign.planted if (row.framework, row.precision) == kind]
        for kind in kinds
    ]
    rows = [
        (TITLES[name], precision, *count(group)) for (name, precision), group in zip(kinds, alike)
    ]
    caption = (
        "beyond: passed for a known reason, which is listed. "
        "smallest: the smallest error of those that were caught, in units of its tolerance. "
        f"Their {len(campaign.controls)} cases without any bug: {unharmed(campaign.controls)}. "
        f"{untried(campaign)}{campaign.where}"
    )
    head = (
        "framework",
        "precision",
        "planted",
        "wrong",
        "equivalent",
        "beyond",
        "survived",
        "smallest",
    )
    return Table.of_text(
        "Bugs that were planted in the source",
        caption,
        head,
        (*rows, ("all", "", *count(campaign.planted))),
    )


def untried(campaign: Campaign) -> str:
    left = campaign.cases - len(campaign.bugs)
    return f"{left} of {campaign.cases} bugs and cases were not tried. " if left else ""


def unharmed(controls: Sequence[Row]) -> str:
    good = sum(row.as_wanted for row in controls)
    return f"{good} pass, the largest error {largest(controls)} of its tolerance"


def count(rows: list[Row]) -> tuple[str, ...]:
    wrong = [row for row in rows if row.status == "wrong"]
    equivalent = [row for row in rows if row.equivalent and row.as_wanted]
    missed = [row for row in rows if row.missed]
    survived = len(rows) - len(wrong) - len(equivalent) - len(missed)
    margins = [row.margin for row in wrong if row.margin is not None]
    smallest = times(min(margins)) if margins else "-"
    return (
        str(len(rows)),
        str(len(wrong)),
        str(len(equivalent)),
        str(len(missed)),
        str(survived),
        smallest,
    )


def times(margin: float) -> str:
    return f"{margin:,.0f}" if margin >= 100 else f"{margin:.3g}"


def largest(controls: Sequence[Row]) -> str:
    return f"{max((row.margin or 0.0 for row in controls), default=0.0):.2g}"


def listed(campaign: Campaign) -> Iterator[Table]:
    head = ("bug", "case", "came out", "seen in", "error / tolerance")
    for name in FRAMEWORKS:
        rows = [row for row in campaign.planted if row.framework == name]
        cells = [_cells(row) for row in rows]
        notes = tuple(_note(row) for row in rows if row.equivalent or row.missed)
        caption = "error / tolerance: -, where what was seen is no such number."
        yield Table.of_text(
            f"Bugs planted in {TITLES[name]}", caption, head, cells, left=4, notes=notes
        )


def _cells(row: Row) -> tuple[str, ...]:
    seen = row.by if row.status == "wrong" else ""
    margin = times(row.margin) if seen and row.margin is not None else "-"
    status = row.status
    if row.equivalent and row.as_wanted:
        status += " (equivalent)"
    elif row.missed:
        status += " (beyond verification)"
    return row.bug, row.case.removesuffix("/b4/tiny"), status, seen, margin


def _note(row: Row) -> str:
    """Say why a bug that passed was not to be seen."""
    if row.equivalent:
        return f"{row.bug}: equivalent, since {row.equivalent}"
    return f"{row.bug}: passed, since it {row.beyond}"
