"""Say what backs the published numbers: what verified them, and which code measured them.

README has the short form of these sentences, docs/checks.md the long one. They are counted from the
records, so that they cannot say more than the records do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from framebench.records.record import Record
from framebench.records.reference import classify_reference
from framebench.suite.counting import format_count

# a file in a results folder: the commits that records name and the repository does not have
LOST_COMMITS = "lost_commits.txt"


def read_lost_commits(results: Path) -> frozenset[str]:
    """Return the full hashes in LOST_COMMITS, or none if there is no such file."""
    file = results / LOST_COMMITS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return frozenset(line for line in lines if line and not line.startswith("#"))


class Backing(NamedTuple):
    """What backs the numbers, in a line and in detail."""

    short: str
    detailed: tuple[str, ...]


def describe_backing(records: Sequence[Record], results: Path) -> Backing | None:
    """Return the sentences on what backs these records, or None without records."""
    if not records:
        return None
    lost_commits = read_lost_commits(results)
    rows = []
    for record in records:
        provenance = record.provenance
        mathematics = record.verification and record.verification.mathematics
        rows.append(
            {
                "case": (provenance.machine, record.framework_version, record.case),
                "is_lost": provenance.commit in lost_commits,
                "machine": provenance.machine,
                "reference": classify_reference(record) if record.status == "ok" else None,
                "in_float64": bool(mathematics and mathematics.computed),
                # `dirty` is None if it is unknown whether there were uncommitted changes
                "changed": provenance.dirty is not False,
            }
        )
    table = pd.DataFrame(rows)
    detailed = (describe_verification(table), describe_code(table))
    return Backing(summarize(table), detailed)


def summarize(table: pd.DataFrame) -> str:
    """Return a sentence on how many measurements were verified, and have their code."""
    measured = table[table["reference"].notna()]
    in_float64 = measured[~measured["reference"].isin(["float32", "none"])]
    has_code = table[~table["is_lost"] & ~table["changed"]]
    return (
        f"{len(in_float64):,} of {len(measured):,} measurements agree with values computed in "
        f"float64, and {len(has_code):,} of {len(table):,} records name a commit that has the code "
        "that measured them."
    )


def describe_verification(table: pd.DataFrame) -> str:
    """Return sentences on the records that agree with float64, and on the others with numbers."""
    measured = table[table["reference"].notna()]
    in_float32 = measured["reference"] == "float32"
    is_unreferenced = measured["reference"] == "none"
    without_float64 = measured[in_float32 | is_unreferenced]
    agreeing_count = len(measured) - len(without_float64)
    text = f"**Verified.** {agreeing_count:,} of {len(measured):,} measurements agree"
    text += " with values computed in float64."
    if len(without_float64):
        text += f" The other {len(without_float64):,} are of sizes without float64 values"
        text += f"{name_machines(without_float64)}:"
        text += f" {in_float32.sum():,} agree with a float32 case of the same session,"
        text += f" {is_unreferenced.sum():,} are only known to be finite."
    computed = measured["in_float64"].sum()
    if computed:
        text += f" In {computed:,} the strategy's own step was run in float64, too, and agrees."
    return text


def describe_code(table: pd.DataFrame) -> str:
    """Return sentences on the records that name the code that measured them, and on the others."""
    lost, with_commit = table[table["is_lost"]], table[~table["is_lost"]]
    changed = with_commit[with_commit["changed"]]
    text = "**Repeatable.** `framebench run CASE` measures a case again."
    text += f" {len(with_commit) - len(changed):,} of {len(table):,} records name a commit"
    text += " that has the code that measured them."
    if len(lost):
        only_lost_count = len(set(lost["case"]) - set(with_commit["case"]))
        text += f" {len(lost):,}{name_machines(lost)} name a commit"
        text += " that this repository does not have, and are the only records of "
        text += f"{format_count(only_lost_count, 'case')}."
    if len(changed):
        text += f" {len(changed):,}{name_machines(changed)} had uncommitted changes,"
        text += " or cannot tell whether they had."
    return text


def name_machines(table: pd.DataFrame) -> str:
    """Return ` (of `a` and `b`)`: the machines that measured these records."""
    machines = [f"`{machine}`" for machine in sorted(table["machine"].unique())]
    return f" (of {' and '.join(machines)})"
