"""What a job needs: the smallest budget of memory that is sure to hold it.

Every command, table and page that compares a job with a budget, or says how much memory a job
takes, asks here. Two things make up the need of a measured job: the *peak* of a step, and what the
process *keeps* next to it.

On a CPU the peak is that of `host.rss`, and a process keeps workspaces and generated kernels, which
searches under an enforced limit have measured. On a GPU the peak is what the framework's allocator
has in use. The process keeps the rest of the allocator's pool, and the context of the driver.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from framebench.analysis.rendering import MIB, is_missing
from framebench.analysis.searches import Searches
from framebench.suite.case import Case

# a budget is so many times peak and kept bytes: batches of JAX have failed at up to 2.7 % less than
# their limit
MARGIN = 1.05
# relative: amounts of memory that differ by less are said to be equal
EQUAL = 1e-3
# below an answer that compares jobs on a CPU with a budget
NOT_IN_BUDGET = (
    "the budget is for the job alone: from the limit of a container or of a process subtract first "
    "what the interpreter and the framework's libraries take (docs/budget.md, 'From a limit to a "
    "budget')"
)


def describe_lenders(machines: Iterable[str | None]) -> str:
    """Return whose published searches say what processes keep, or "" where none was lent."""
    names = sorted({name for name in machines if name})
    if not names:
        return ""
    return (
        f"what processes keep next to their peak: from published searches on {', '.join(names)}, "
        "as there are none here"
    )


class EnforcedLimits(NamedTuple):
    """Bounds of the bytes that one batch needs, from searches under an enforced limit."""

    sufficient: int | None = None  # the smallest budget in which this batch, or a larger one, ran
    insufficient: int | None = None  # the largest in which this, or a smaller one, ran out


NO_LIMITS = EnforcedLimits()  # no search has run the case


def compute_needs(peak: float, kept_bytes: int, limits: EnforcedLimits = NO_LIMITS) -> int:
    """Return the bytes that a budget must have for a job to be sure to fit.

    The budget is 1.05 x (peak + kept bytes), unless a search has shown that less is enough, or that
    so much is not.

    Args:
        peak: Bytes of a steady step; of a prediction the upper end of its interval.
        kept_bytes: Bytes that the process keeps next to it.
        limits: What searches under an enforced limit have shown.
    """
    needs = round((peak + kept_bytes) * MARGIN)
    if limits.sufficient is not None:
        needs = min(needs, limits.sufficient)
    if limits.insufficient is not None:  # last: where two searches disagree the worse counts
        needs = max(needs, limits.insufficient + 1)
    return needs


def compute_least_needs(
    peak: float, kept_bytes: int, is_kept_borrowed: bool, limits: EnforcedLimits = NO_LIMITS
) -> int:
    """Return the bytes below which no budget holds a job.

    They are what it needs (`compute_needs`). But if no search has run its strategy, what it keeps
    is a guess by other strategies, and nothing of it is counted. A budget between the two may hold
    the job or not.

    Args:
        peak: Bytes of a steady step; of a prediction the upper end of its interval.
        kept_bytes: Bytes that the process keeps next to it.
        is_kept_borrowed: Whether they are of other strategies (`is_kept_borrowed`).
        limits: What searches under an enforced limit have shown.
    """
    return compute_needs(peak, 0 if is_kept_borrowed else kept_bytes, limits)


def is_kept_borrowed(case: Case, instrument: str | None, searches: Searches) -> bool:
    """Return whether what the case's process keeps is known of other strategies alone.

    On a GPU it is measured of each case.
    """
    if instrument != "host.rss":
        return False
    kept = searches.find_kept(case)
    return kept is not None and not kept.is_of_strategy


def are_equal_amounts(amount: float, other_amount: float) -> bool:
    """Return whether two amounts of memory, in the same unit, are said to be equal."""
    return math.isclose(amount, other_amount, rel_tol=EQUAL)


def format_guessed_needs(needs: float, least_needs: float) -> str:
    """Return needed bytes in MiB without the unit, such as `84.6`, or `up to 152.5` of a guess.

    It is a guess where less may be enough (`compute_least_needs`).
    """
    text = format_needs(needs)
    return f"up to {text}" if least_needs < needs else text


def format_needs(needs: float | None) -> str:
    """Return needed bytes in MiB without the unit, rounded up, so that a budget of it does fit.

    Every text and table prints needs by this function, so that a job has one number. The text is a
    dash if they are not known.
    """
    if needs is None or is_missing(needs):
        return "-"
    return f"{math.ceil(needs / MIB * 10) / 10:,.1f}"


def find_kept_bytes(
    case: Case,
    instrument: str | None,
    peak: int | None,
    process_bytes: int | None,
    searches: Searches,
) -> int | None:
    """Return the bytes that a process keeps next to its peak, or None if nobody measured it.

    Args:
        case: What was measured.
        instrument: That read the peak.
        peak: Bytes.
        process_bytes: What the process held on a GPU, by NVML; None on a CPU.
        searches: All searches under an enforced limit.
    """
    if instrument == "host.rss":
        kept = searches.find_kept(case)
        return kept.bytes if kept else None
    if peak is None or process_bytes is None:
        return None
    return max(process_bytes - peak, 0)


def is_process_unknown(device: str | None, process_bytes: int | None) -> bool:
    """Return whether the case ran on a GPU, and nobody measured what its process took there.

    Nothing is known of the need then: next to a small model's tensors the context of the driver
    alone takes several times as much.
    """
    return device not in (None, "cpu") and process_bytes is None


def find_limits(
    case: Case,
    machine: str,
    framework_version: str | None,
    device: str | None,
    searches: Searches,
) -> EnforcedLimits:
    """Return the bounds of the bytes that the case needs, from searches of this version.

    The searches are those of the machine, or else of others with a device of its kind.
    """
    case_searches = searches.find_searches(case, machine, framework_version, device)
    return EnforcedLimits(
        sufficient=case_searches.find_smallest_holding(case.batch),
        insufficient=case_searches.find_largest_failing(case.batch),
    )
