"""Say what backs the published numbers: what they were verified against, and which of them name code that can be checked out.

README shows these sentences. They are counted from the records, so that they cannot say more than the records do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framebench.records.record import Record
from framebench.records.reference import find_reference

LOST_COMMITS = "lost_commits.txt"  # below a results folder: commits that records name and the repository does not have
SHOWN_DIGITS = 10  # of a commit, as in the captions of tables


def read_lost_commits(results: Path) -> frozenset[str]:
    """Return the full hashes of LOST_COMMITS; none where there is no such file."""
    file = results / LOST_COMMITS
    if not file.exists():
        return frozenset()
    lines = file.read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def describe_verification(records: Sequence[Record]) -> str:
    """Return how many of the records with numbers agree with float64, and what is known of the others."""
    measured = [record for record in records if record.status == "ok"]
    in_float32 = [record for record in measured if find_reference(record) == "float32"]
    unreferenced = [record for record in measured if find_reference(record) == "none"]
    others = [*in_float32, *unreferenced]
    agreeing = len(measured) - len(others)
    told = f"**Verified.** {agreeing:,} of {len(measured):,} measurements agree with values computed in float64."
    if others:
        told += (
            f" The other {len(others):,} are of sizes without float64 values{_name_machines(others)}: {len(in_float32):,} "
            f"agree with a float32 case of the same session, {len(unreferenced):,} are only known to be finite."
        )
    return told + _describe_mathematics(measured)


def _describe_mathematics(measured: Sequence[Record]) -> str:
    """Return how many of these records have an answer in float64 for their strategy's own step; empty if none has."""
    computed = 0
    for record in measured:
        verification = record.verification
        if verification is not None and verification.mathematics is not None and verification.mathematics.computed:
            computed += 1
    return f" In {computed:,} the strategy's own step was run in float64, too, and agrees." if computed else ""


def describe_code(records: Sequence[Record], lost_commits: frozenset[str]) -> str:
    """Return how many records name the code that measured them, and why the others do not."""
    lost = [record for record in records if record.provenance.commit in lost_commits]
    there = [record for record in records if record.provenance.commit not in lost_commits]
    changed = [record for record in there if record.provenance.dirty is not False]  # None: it could not be told
    named = len(records) - len(lost) - len(changed)
    told = f"**Repeatable.** `framebench run CASE` measures a case again. {named:,} of {len(records):,} records name a commit"
    told += " that has the code that measured them."
    if lost:
        alone = len(_list_cases(lost) - _list_cases(there))
        told += f" {len(lost):,}{_name_machines(lost)} name a commit that this repository does not have,"
        told += f" and are the only records of {alone:,} cases."
    if changed:
        told += f" {len(changed):,}{_name_machines(changed)} had uncommitted changes, or cannot tell whether they had."
    return told


def describe_backing(records: Sequence[Record], results: Path) -> tuple[str, ...]:
    """Return the sentences for README, a line each; none without records."""
    if not records:
        return ()
    return describe_verification(records), describe_code(records, read_lost_commits(results))


def _list_cases(records: Sequence[Record]) -> set[tuple[str, str | None, str]]:
    """Return each case on its machine and in its version of the framework."""
    return {(record.provenance.machine, record.framework_version, record.case) for record in records}


def _name_machines(records: Sequence[Record]) -> str:
    """Return ` (of `a` and `b`)`: the machines that measured these records."""
    machines = sorted({record.provenance.machine for record in records})
    return f" (of {' and '.join(f'`{machine}`' for machine in machines)})"
