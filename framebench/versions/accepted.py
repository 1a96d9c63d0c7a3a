"""Read which regressions of releases are known and accepted, so that they raise no alarm."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ValidationError, field_validator

from framebench.records.pins import REQUIREMENTS
from framebench.records.record_parts import RecordPart
from framebench.suite.counting import format_count
from framebench.versions.judge import (
    QUANTITIES,
    REGRESSION,
    QuantityComparison,
    parse_release,
)

ACCEPTED = REQUIREMENTS / "versions" / "accepted.toml"


class MalformedEntry(ValueError):
    """An entry of the file of accepted regressions cannot be read; the message says which."""


class AcceptedRegression(RecordPart):
    """A regression that somebody has looked at.

    `at_most` is the largest accepted ratio of change over base. If a `device` is given, the plans
    for that device, which is not here, have regressed, and otherwise the measurements.
    """

    release: str  # such as jax==0.11.0
    cases: str  # a glob of cases
    quantity: str  # one of judge.QUANTITIES
    at_most: float
    reason: str
    device: str | None = None

    @field_validator("release")
    @classmethod
    def check_release(cls, release: str) -> str:
        """Raise ValueError for a text that is no release: it would silently accept nothing."""
        parse_release(release)
        return release

    @field_validator("quantity")
    @classmethod
    def check_quantity(cls, quantity: str) -> str:
        """Raise ValueError for a text that is no quantity."""
        names = [known.name for known in QUANTITIES]
        if quantity not in names:
            raise ValueError(f"{quantity!r} is no quantity; choose from: {', '.join(names)}")
        return quantity

    def covers(
        self, change: str, case: str, quantity: str, ratio: float | None, device: str | None
    ) -> bool:
        """Return whether a change of a case is this regression, and no larger than was accepted."""
        return (
            change == self.release
            and quantity == self.quantity
            and device == self.device
            and ratio is not None
            and ratio <= self.at_most
            and fnmatchcase(case, self.cases)
        )


class AcceptedFile(BaseModel):
    """The entries of the file."""

    accepted: list[AcceptedRegression] = []


def read_accepted(file: Path = ACCEPTED) -> list[AcceptedRegression]:
    """Return the entries of the file, or none if there is no file. Raises MalformedEntry."""
    if not file.exists():
        return []
    try:
        return AcceptedFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).accepted
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))  # accepted.0.cases
        raise MalformedEntry(f"{file.name}: {place}: {problem['msg']}") from error
    except tomllib.TOMLDecodeError as error:
        raise MalformedEntry(f"{file.name}: {error}") from error


def explain_exit(regressions: Sequence[str]) -> str:
    """Return why the exit code is 1: regressions, each named in words, that no entry accepts."""
    count = format_count(len(regressions), "regression")
    first, *others = regressions
    more = f" and {len(others)} more" if others else ""
    return (
        f"exit code 1: requirements/versions/{ACCEPTED.name} has no entry for {count}: {first}"
        f"{more}. What an entry accepts is listed as known (docs/versions.md)"
    )


def split_regressions(
    rows: Iterable[QuantityComparison], accepted: Iterable[AcceptedRegression]
) -> tuple[list[QuantityComparison], list[tuple[QuantityComparison, str]]]:
    """Return the new regressions among the rows, and the accepted ones, each with its reason."""
    entries = list(accepted)
    new_regressions = []
    accepted_regressions = []
    for row in rows:
        if row.verdict != REGRESSION:
            continue
        reason = find_reason(entries, row.change, row.case, row.quantity, row.ratio)
        if reason is None:
            new_regressions.append(row)
        else:
            accepted_regressions.append((row, reason))
    return new_regressions, accepted_regressions


def find_reason(
    accepted: Iterable[AcceptedRegression],
    change: str,
    case: str,
    quantity: str,
    ratio: float | None,
    device: str | None = None,
) -> str | None:
    """Return the reason that a regression was accepted for, or None if it was not."""
    for entry in accepted:
        if entry.covers(change, case, quantity, ratio, device):
            return entry.reason
    return None
