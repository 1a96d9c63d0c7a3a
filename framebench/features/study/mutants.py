"""The planted bugs' tables.

`make mutants` plants the bugs and writes what came of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from framebench.analysis.comparison import Comparison
from framebench.records.provenance import ROOT
from framebench.suite.case import Case
from framebench.suite.strategy import FRAMEWORKS, TITLES

MUTANTS = ROOT / "results/study/mutants.json"


class Row(BaseModel):
    """What came of a bug, or of a case without any: then `bug` is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    bug: str
    case: str
    precision: str
    equivalent: str  # why no verification could see it
    status: str  # as of a record, and "not proven" for an `ok` whose strategy was not seen at work
    by: str  # what was furthest off
    margin: float | None  # by how many tolerances; None: what `by` says is no such number
    reason: str
    seconds: float
    key: str  # of the bug and of the sources that it was tried with

    @property
    def framework(self) -> str:
        return Case.of(self.case).framework

    @property
    def as_wanted(self) -> bool:
        """A bug is `wrong`, unless it is equivalent; then, as without any bug, it must not be."""
        unharmed = not self.bug or bool(self.equivalent)
        return self.status in (("ok", "not proven") if unharmed else ("wrong",))


class Campaign(BaseModel):
    """A file of them. `cases` counts those that were to be tried."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    measured_at: datetime
    commit: str | None
    dirty: bool | None
    machine: str
    protocol: int
    cases: int
    bugs: tuple[Row, ...]

    @property
    def planted(self) -> list[Row]:
        return [row for row in self.bugs if row.bug]

    @property
    def controls(self) -> list[Row]:
        return [row for row in self.bugs if not row.bug]

    @property
    def where(self) -> str:
        commit = f"at {(self.commit or 'no commit')[:10]}{' with uncommitted changes' if self.dirty else ''}"
        return f"Protocol {self.protocol}, {self.machine}, {self.measured_at:%Y-%m-%d}, {commit}."


def read(file: Path) -> Campaign:
    """Raises OSError, or ValueError for a file of another form."""
    return Campaign.model_validate_json(file.read_text())


def comparisons(file: Path) -> list[Comparison]:
    """The count, then each framework's bugs, if any were planted."""
    if not file.exists():
        return []
    campaign = read(file)
    return [counts(campaign), *listed(campaign)]


def counts(campaign: Campaign) -> Comparison:
    kinds = sorted({(row.framework, row.precision) for row in campaign.planted})
    alike = [[row for row in campaign.planted if (row.framework, row.precision) == kind] for kind in kinds]
    rows = [(TITLES[name], precision, *count(group)) for (name, precision), group in zip(kinds, alike)]
    caption = (
        "smallest: the smallest error of those that were caught, in units of its tolerance. "
        f"Their {len(campaign.controls)} cases without any bug: {unharmed(campaign.controls)}. "
        f"{untried(campaign)}{campaign.where}"
    )
    head = ("framework", "precision", "planted", "wrong", "equivalent", "survived", "smallest")
    return Comparison.of_text(
        "Bugs that were planted in the source", caption, head, (*rows, ("all", "", *count(campaign.planted)))
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
    margins = [row.margin for row in wrong if row.margin is not None]
    smallest = times(min(margins)) if margins else "-"
    return str(len(rows)), str(len(wrong)), str(len(equivalent)), str(len(rows) - len(wrong) - len(equivalent)), smallest


def times(margin: float) -> str:
    return f"{margin:,.0f}" if margin >= 100 else f"{margin:.3g}"


def largest(controls: Sequence[Row]) -> str:
    return f"{max((row.margin or 0.0 for row in controls), default=0.0):.2g}"


def listed(campaign: Campaign) -> Iterator[Comparison]:
    head = ("bug", "case", "came out", "seen in", "error / tolerance")
    for name in FRAMEWORKS:
        rows = [row for row in campaign.planted if row.framework == name]
        cells, notes = [*map(_cells, rows)], tuple(f"{r.bug}: equivalent, since {r.equivalent}" for r in rows if r.equivalent)
        caption = "error / tolerance: -, where what was seen is no such number."
        yield Comparison.of_text(f"Bugs planted in {TITLES[name]}", caption, head, cells, left=4, notes=notes)


def _cells(row: Row) -> tuple[str, ...]:
    seen = row.by if row.status == "wrong" else ""
    margin = times(row.margin) if seen and row.margin is not None else "-"
    status = f"{row.status} (equivalent)" if row.equivalent and row.as_wanted else row.status
    return row.bug, row.case.removesuffix("/b4/tiny"), status, seen, margin
