"""What came of each planted bug: the rows of studies/planted_bugs/data/mutants.json."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from framebench.records.provenance import ROOT
from framebench.suite.case import Case

MUTANTS = ROOT / "studies/planted_bugs/data/mutants.json"


class Row(BaseModel):
    """What came of a bug, or of a case without any: then `bug` is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    bug: str
    case: str
    precision: str
    equivalent: str  # why no verification could see it
    beyond: str = ""  # why this one cannot be counted on to see it
    status: str  # as of a record, and "not proven" for an `ok` without a confirmed effect
    by: str  # what was furthest off, or why it is wrong
    margin: float | None  # by how many tolerances; None where there is no such number
    reason: str
    seconds: float
    key: str  # of the bug and of the sources that it was tried with

    @property
    def framework(self) -> str:
        return Case.from_id(self.case).framework

    @property
    def as_wanted(self) -> bool:
        """Return whether it came out as it should.

        A bug is `wrong`. One that is equivalent must not be, as a case without any bug; one beyond
        verification may be.
        """
        passed = self.status in ("ok", "not proven")
        if not self.bug or self.equivalent:
            return passed
        return self.status == "wrong" or (bool(self.beyond) and passed)

    @property
    def missed(self) -> bool:
        """Return whether it passed for the reason that is known."""
        return bool(self.beyond) and self.status != "wrong" and self.as_wanted


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
        uncommitted = " with uncommitted changes" if self.dirty else ""
        commit = f"at {(self.commit or 'no commit')[:10]}{uncommitted}"
        return f"Protocol {self.protocol}, {self.machine}, {self.measured_at:%Y-%m-%d}, {commit}."


def read(file: Path) -> Campaign:
    """Return a campaign. Raises OSError, or ValueError for a file of another form."""
    return Campaign.model_validate_json(file.read_text())
