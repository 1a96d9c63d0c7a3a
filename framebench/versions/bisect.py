"""Find the first release of a framework in which a case's peak memory changed, by bisection.

A release has changed if its value differs from that of the oldest one tried by more than the
threshold, and by more than the processes of either release differ among themselves (at least
`bisection_record.FLOOR`). The search is for a change in the direction in which the newest release
differs. A release that cannot be installed, run or verified, or whose noise hides the answer, is
skipped. If skipped releases lie just before the first that changed, each of them may be the first.
A value that changes and changes back between the two ends is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from framebench.engine import releases
from framebench.engine.blocks import SILENT, Listener, Run, measure_group
from framebench.engine.environments import Say, SetupError
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions.bisection_record import Bisection, BisectionOutcome, ReleaseResult

PROCESSES = 2  # of each release; the noise of a release is the difference between its processes


class ReleaseSearch:
    """A search among releases, oldest first, that measures each of them at most once."""

    def __init__(
        self, release_names: Sequence[str], measure: Callable[[str], ReleaseResult], minimum: float
    ) -> None:
        """Measure nothing yet; see `bisect_releases`."""
        self.release_names = release_names
        self.measure = measure
        self.minimum = minimum
        self.results: dict[str, ReleaseResult] = {}  # by release, in the order of measuring

    @property
    def tried(self) -> tuple[ReleaseResult, ...]:
        """Return the results up to now, in the order of measuring."""
        return tuple(self.results.values())

    def get_result(self, index: int) -> ReleaseResult:
        """Return the result of a release, measured if need be. Raises the errors of `measure`.

        `index` counts in `release_names`, as in the other methods.
        """
        release = self.release_names[index]
        if release not in self.results:
            self.results[release] = self.measure(release)
        return self.results[release]

    def find_measurable(self, indices: Iterable[int]) -> int | None:
        """Return the first of these indices whose release has a value, or None."""
        for index in indices:
            if self.get_result(index).values:
                return index
        return None

    def find_step(self, low: int, high: int) -> tuple[int, int]:
        """Return the index of the last release before a change, and of the first after it.

        The releases at `low` and `high` differ. Between the two that are returned there are only
        releases that were skipped, since they have no value or too much noise.
        """
        base = self.get_result(low)
        has_grown = is_growth(self.get_result(high), base)
        skipped: set[int] = set()
        while True:
            # the release at `low` is unchanged, and the one at `high` has changed
            candidates = [index for index in range(low + 1, high) if index not in skipped]
            if not candidates:
                return low, high
            middle = candidates[len(candidates) // 2]
            result = self.get_result(middle)
            changed = result.has_changed(base, self.minimum)
            if changed is None:
                skipped.add(middle)
            elif changed and is_growth(result, base) == has_grown:
                high = middle
            else:  # unchanged, or changed in the other direction
                low = middle


def count_most_releases(release_count: int) -> int:
    """Return how many of so many releases a search measures at most, if none is skipped.

    They are both ends, and what halving takes of those between them.
    """
    ends = min(release_count, 2)
    between = release_count - ends
    return ends + between.bit_length()


def bisect_releases(
    case: Case,
    minimum: float,
    release_names: Sequence[str],
    measure: Callable[[str], ReleaseResult],
    device: str | None = None,
) -> Bisection:
    """Search the releases for the first in which a peak changed.

    Raises the errors of `measure`.

    Args:
        case: The case whose peak is compared.
        minimum: The smallest relative change that matters.
        release_names: The releases, oldest first.
        measure: Measures or plans a release; it is called at most once for each.
        device: The absent device that `measure` plans for; None if it measures.
    """
    search = ReleaseSearch(release_names, measure, minimum)
    make_bisection = partial(
        Bisection, framework=case.framework, case=case.id, device=device, threshold=minimum
    )

    # the ends are the oldest and the newest release that have a value
    release_count = len(release_names)
    low = search.find_measurable(range(release_count))
    high = None
    if low is not None:
        high = search.find_measurable(range(release_count - 1, low, -1))
    if low is None or high is None:
        only = "none" if low is None else f"only {release_names[low]}"
        span = f"the {release_count} releases from {release_names[0]} to {release_names[-1]}"
        answer = f"{only} of {span} could be measured, and it takes two"
        return make_bisection(outcome="not measured", answer=answer, tried=search.tried)
    base, newest = search.get_result(low), search.get_result(high)
    changed = newest.has_changed(base, minimum)
    if not changed:
        outcome: BisectionOutcome = "undecided" if changed is None else "no change"
        answer = describe_unchanged(base, newest, changed, minimum)
        return make_bisection(outcome=outcome, answer=answer, tried=search.tried)

    low, high = search.find_step(low, high)
    unchanged, first = search.get_result(low), search.get_result(high)
    between = tuple(release_names[low + 1 : high])
    change = f"{first.compute_change(unchanged) or 0.0:+.1%} against {unchanged.release}"
    answer = f"first changed in {first.release}: {change}"
    if between:
        answer = (
            f"first changed in {', '.join(between)} or {first.release} ({change}); those before "
            f"{first.release} were stepped over"
        )
    return make_bisection(
        outcome="one of several" if between else "found",
        answer=answer,
        tried=search.tried,
        first=first.release,
        last_unchanged=unchanged.release,
        between=between,
    )


def is_growth(result: ReleaseResult, base: ReleaseResult) -> bool:
    """Return whether a value is larger than that of the base."""
    return (result.compute_change(base) or 0.0) > 0


def describe_unchanged(
    base: ReleaseResult, newest: ReleaseResult, changed: bool | None, minimum: float
) -> str:
    """Return a sentence that nothing changed between the two ends, or why that is not known.

    `changed` is what `ReleaseResult.changed` returned: False, or None for unknown.
    """
    change = newest.compute_change(base)
    if change is None:
        return (
            f"{base.release} and {newest.release} are not comparable: read by {base.instrument} "
            f"and {newest.instrument}"
        )
    summary = f"{base.release} to {newest.release}: {change:+.2%}"
    if changed is None:
        noise = max(base.noise, newest.noise)
        return f"cannot tell: {summary}, and equal processes differ by {noise:.2%}"
    return (
        f"no change by more than {minimum:.1%}: {summary}; what changed and changed back "
        "between them is not seen"
    )


@dataclass(frozen=True)
class ReleaseBench:
    """Measure releases. Processes that the session already has are not repeated."""

    case: Case
    session: str
    results: Path
    say: Say
    keep: bool = False  # the environments that are made for it
    processes: int = PROCESSES
    progress: Listener = SILENT

    def measure(self, release: str) -> ReleaseResult:
        """Measure a release, and print and return the result. Raises OSError."""
        variant = Variant(self.case, releases.describe_release(self.case.framework, release))
        options = Options(rounds=0, peaks_each_block=True)
        with Run(self.session, options, self.results, self.progress) as run:
            try:
                if not self.is_done(run.get_records(variant)):
                    self.measure_processes(variant, run)
                result = make_result(release, run.get_records(variant))
            except SetupError as error:
                *_, last_line = str(error).strip().splitlines()
                result = ReleaseResult(release=release, reason=f"cannot be installed: {last_line}")
        self.say(f"{variant.environment.name}: {describe_result(result)}")
        return result

    def measure_processes(self, variant: Variant, run: Run) -> None:
        """Measure in fresh processes until there are enough, or one fails. Raises SetupError."""
        with releases.make_environment(
            self.case.framework, variant.environment.version, self.keep, self.say
        ):
            group = Group(f"bisect/{variant.environment.name}/{variant.case.id}", (variant,))
            for number in range(self.processes):
                measure_group(group, run, number)
                if self.is_done(run.get_records(variant)):
                    return

    def is_done(self, records: Sequence[Record]) -> bool:
        """Return whether there are enough processes, or one has failed."""
        has_failed = any(record.status != "ok" for record in records)
        return has_failed or len(records) >= self.processes


def make_result(release: str, records: Sequence[Record]) -> ReleaseResult:
    """Return the result of a release from its processes: no value if one of them failed."""
    values = tuple(record.peak_bytes for record in records if record.peak_bytes)
    reason = None if values else "no peak could be read here"
    for record in records:
        if record.status != "ok":
            reason = f"{record.status}: {record.reason}"
    return ReleaseResult(
        release=release,
        values=() if reason else values,
        instrument=records[-1].peak_instrument,
        reason=reason,
        versions=records[-1].provenance.versions,
    )


def describe_result(result: ReleaseResult) -> str:
    """Return the value of a release with its unit, or why it has no value."""
    if result.value is None:
        return f"stepped over: {result.reason}"
    return f"{result.value / 2**20:,.2f} MiB ({result.instrument})"
