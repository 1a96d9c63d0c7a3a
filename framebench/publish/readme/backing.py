"""Say what backs the published numbers.

That is what they were verified against, and which of them name code that can be checked out.

README shows these sentences. They are counted from the records, so that they cannot say more than
the records do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framebench.records.record import Record
from framebench.records.reference import find_reference

# below a results folder: the commits that records name and the repository does not have
LOST_COMMITS = "lost_commits.txt"


def read_lost_commits(results: Path) -> frozenset[str]:
    """Return the full hashes of LOST_COMMITS; none where there is no such file."""
    file = results / LOST_COMMITS
    if not file.exists():
        return frozenset()
    lines = file.read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def describe_verification(records: Sequence[Record]) -> str:
    """Return how many records with numbers agree with float64, and what is known of the others."""
    measured = [record for record in records if record.status == "ok"]
    in_float32 = [record for record in measured if find_reference(record) == "float32"]
    unreferenced = [record for record in measured if find_reference(record) == "none"]
    others = [*in_float32, *unreferenced]
    agreeing = len(measured) - len(others)
    text = f"**Verified.** {agreeing:,} of {len(measured):,} measurements agree with values"
    text += " computed in float64."
    if others:
        text += f" The other {len(others):,} are of sizes without float64 values"
        text += f"{name_machines(others)}:"
        text += f" {len(in_float32):,} agree with a float32 case of the same session,"
        text += f" {len(unreferenced):,} are only known to be finite."
    return text + describe_mathematics(measured)


def describe_mathematics(measured: Sequence[Record]) -> str:
    """Return how many of these strategies were run in float64 themselves; empty if none was."""
    computed = 0
    for record in measured:
        mathematics = record.verification.mathematics if record.verification else None
        if mathematics is not None and mathematics.computed:
            computed += 1
    if not computed:
        return ""
    return f" In {computed:,} the strategy's own step was run in float64, too, and agrees."


def describe_code(records: Sequence[Record], lost_commits: frozenset[str]) -> str:
    """Return how many records name the code that measured them, and why the others do not."""
    lost = [record for record in records if record.provenance.commit in lost_commits]
    there = [record for record in records if record.provenance.commit not in lost_commits]
    # None: nobody knows whether there were uncommitted changes
    changed = [record for record in there if record.provenance.dirty is not False]
    named = len(records) - len(lost) - len(changed)
    text = "**Repeatable.** `framebench run CASE` measures a case again."
    text += f" {named:,} of {len(records):,} records name a commit"
    text += " that has the code that measured them."
    if lost:
        alone = len(list_cases(lost) - list_cases(there))
        text += f" {len(lost):,}{name_machines(lost)} name a commit"
        text += f" that this repository does not have, and are the only records of {alone:,} cases."
    if changed:
        text += f" {len(changed):,}{name_machines(changed)} had uncommitted changes,"
        text += " or cannot tell whether they had."
    return text


def describe_backing(records: Sequence[Record], results: Path) -> tuple[str, ...]:
    """Return the sentences for README, a line each; none without records."""
    if not records:
        return ()
    return describe_verification(records), describe_code(records, read_lost_commits(results))


def list_cases(records: Sequence[Record]) -> set[tuple[str, str | None, str]]:
    """Return each case on its machine and in its version of the framework."""
    cases = set()
    for record in records:
        cases.add((record.provenance.machine, record.framework_version, record.case))
    return cases


def name_machines(records: Sequence[Record]) -> str:
    """Return ` (of `a` and `b`)`: the machines that measured these records."""
    machines = sorted({record.provenance.machine for record in records})
    return f" (of {' and '.join(f'`{machine}`' for machine in machines)})"
