"""Count the faults that tests had planted when `data/faults.json` was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis.rendering import Table

COUNTS = ("tried", "records_lost", "false_ok")
HEAD = ("fault", "seen as", "tried", "records lost", "false ok", "test")


def comparisons(file: Path) -> Iterator[Table]:
    """The count, if it was written down."""
    if file.exists():
        yield table(json.loads(file.read_text()))


def table(campaign: dict[str, Any]) -> Table:
    """A row for each kind of fault, and their sum."""
    tried = pd.DataFrame(campaign["faults"])
    rows = [
        line((str(fault), str(seen)), group)
        for (fault, seen), group in tried.groupby(["fault", "seen"])
    ]
    uncommitted = " with uncommitted changes" if campaign["dirty"] else ""
    caption = (
        "records lost: expected after the fault and not there. false ok: records that claim to be "
        "right, verified and with their strategy proven, and should not. Counted by the tests "
        f"themselves on {campaign['machine']}, {campaign['measured_at'][:10]}, at "
        f"{(campaign['commit'] or 'no commit')[:10]}{uncommitted}."
    )
    total = line(("all", ""), tried)
    return Table.of_text(
        "Faults that were planted, and what came of them", caption, HEAD, (*rows, total), left=2
    )


def line(names: tuple[str, str], group: pd.DataFrame) -> tuple[str, ...]:
    sums = (str(group[count].sum()) for count in COUNTS)
    return (*names, *sums, "passed" if group["passed"].all() else "FAILED")
