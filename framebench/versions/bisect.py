"""The first release of a framework in which a case's peak memory, or its instructions, changed: by
bisection.

A release has changed if its value differs from that of the oldest one tried by more than the
threshold, and by more than the processes of either release differ among themselves (at least
`bisection_record.FLOOR`). Looked for is a change in the direction in which the newest release
differs. A release that cannot be installed, run or verified, or whose noise hides the answer, is
stepped over; if such releases lie before the first that changed, none of them is ruled out. A value
that changes and changes back between the two ends is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from framebench.engine import releases
from framebench.engine.blocks import SILENT, Listener, Run, measure_group
from framebench.engine.environments import Say, SetupError
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions.bisection_record import Bisection, ReleaseResult

Measure = Callable[[str], ReleaseResult]
Quantity = Literal["peak", "instructions"]
PROCESSES = 2  # of each release: its noise is how far they lie apart


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of a search over releases: fields of `Bisection`."""

    outcome: Literal["found", "one of several", "no change", "undecided", "not measured"]
    answer: str
    first: str | None = None
    last_unchanged: str | None = None
    between: tuple[str, ...] = ()


@dataclass
class ReleaseSearch:
    """A search over releases, oldest first, that measures each at most once."""

    releases: Sequence[str]
    measure: Measure
    minimum: float  # the smallest relative change that matters
    results: dict[str, ReleaseResult] = field(default_factory=dict)  # in the order of trying

    def run(self) -> SearchOutcome:
        """Measure both ends, and halve the releases between them if they differ."""
        low = self.find_measurable(range(len(self.releases)))
        if low is None:
            return SearchOutcome("not measured", self.describe_unmeasured())
        high = self.find_measurable(range(len(self.releases) - 1, low, -1))
        if high is None:
            return SearchOutcome("not measured", self.describe_unmeasured())

        base, newest = self.result(low), self.result(high)
        changed = newest.changed(base, self.minimum)
        if not changed:
            outcome: Literal["undecided", "no change"] = (
                "undecided" if changed is None else "no change"
            )
            return SearchOutcome(outcome, describe_unchanged(base, newest, changed, self.minimum))

        low, high = self.narrow(low, high)
        between = tuple(self.releases[low + 1 : high])
        return SearchOutcome(
            "one of several" if between else "found",
            describe_change(self.result(high), self.result(low), between),
            first=self.releases[high],
            last_unchanged=self.releases[low],
            between=between,
        )

    def result(self, place: int) -> ReleaseResult:
        """Return what a release gave; measure it if it was not tried yet."""
        release = self.releases[place]
        if release not in self.results:
            self.results[release] = self.measure(release)
        return self.results[release]

    def find_measurable(self, places: Iterable[int]) -> int | None:
        """Return the first of these places whose release has a value."""
        for place in places:
            if self.result(place).values:
                return place
        return None

    def narrow(self, low: int, high: int) -> tuple[int, int]:
        """Return the last place that did not change and the first that did; those between were
        stepped over.
        """
        base = self.result(low)
        has_grown = is_growth(self.result(high), base)
        stepped_over: set[int] = set()
        while True:
            left = [place for place in range(low + 1, high) if place not in stepped_over]
            if not left:
                return low, high
            middle = left[len(left) // 2]
            result = self.result(middle)
            changed = result.changed(base, self.minimum)
            if changed is None:
                stepped_over.add(middle)
            elif changed and is_growth(result, base) == has_grown:
                high = middle
            else:  # a change in the other direction is not the one that is looked for
                low = middle

    def describe_unmeasured(self) -> str:
        """Return how many of the releases could be measured: none or one."""
        measured = [result.release for result in self.results.values() if result.values]
        only = f"only {measured[0]}" if measured else "none"
        span = f"the {len(self.releases)} releases from {self.releases[0]} to {self.releases[-1]}"
        return f"{only} of {span} could be measured, and it takes two"


def is_growth(result: ReleaseResult, base: ReleaseResult) -> bool:
    """Return whether a value is larger than the base's."""
    return (result.change(base) or 0.0) > 0


def describe_change(first: ReleaseResult, last: ReleaseResult, between: Sequence[str]) -> str:
    """Return the first release that changed against the last that did not, and those that may be
    the first instead.
    """
    change = first.change(last) or 0.0
    text = f"{change:+.1%} against {last.release}"
    if not between:
        return f"first changed in {first.release}: {text}"
    candidates = f"{', '.join(between)} or {first.release}"
    return f"first changed in {candidates} ({text}); those before {first.release} were stepped over"


def describe_unchanged(
    base: ReleaseResult, last: ReleaseResult, changed: bool | None, minimum: float
) -> str:
    """Return that nothing changed between the two ends, or why that cannot be told."""
    change = last.change(base)
    if change is None:
        return (
            f"{base.release} and {last.release} are not comparable: read by {base.instrument} "
            f"and {last.instrument}"
        )
    summary = f"{base.release} to {last.release}: {change:+.2%}"
    if changed is None:
        return (
            f"cannot tell: {summary}, and equal processes differ by "
            f"{max(base.noise, last.noise):.2%}"
        )
    return (
        f"no change by more than {minimum:.1%}: {summary}; what changed and changed back "
        "between them is not seen"
    )


def bisect_releases(
    case: Case,
    quantity: Quantity,
    minimum: float,
    release_names: Sequence[str],
    measure: Measure,
    device: str | None = None,
) -> Bisection:
    """Search the releases, oldest first, for the first in which a quantity changed.

    `device`: that is not here, if `measure` plans for one. Raises what `measure` raises.
    """
    search = ReleaseSearch(release_names, measure, minimum)
    finding = search.run()
    return Bisection(
        framework=case.framework,
        case=case.id,
        quantity=quantity,
        device=device,
        threshold=minimum,
        outcome=finding.outcome,
        answer=finding.answer,
        first=finding.first,
        last_unchanged=finding.last_unchanged,
        between=finding.between,
        tried=tuple(search.results.values()),
    )


@dataclass(frozen=True)
class ReleaseBench:
    """How a release is measured; what the session has of it already is not repeated."""

    case: Case
    quantity: Quantity
    session: str
    results: Path
    say: Say
    keep: bool = False  # the environments that are made for it
    processes: int = PROCESSES
    progress: Listener = SILENT

    def bisect(self, release_names: Sequence[str], minimum: float) -> Bisection:
        """Search the releases by measuring them. Raises OSError if a record cannot be written."""
        return bisect_releases(self.case, self.quantity, minimum, release_names, self.measure)

    def measure(self, release: str) -> ReleaseResult:
        """Measure a release, and say what it gave."""
        variant = Variant(self.case, releases.describe_release(self.case.framework, release))
        # peaks need verified steps and no times; instructions are counted in the steps that are
        # timed
        options = Options(rounds=0 if self.quantity == "peak" else 2, peaks_each_block=True)
        with Run(self.session, options, self.results, self.progress) as run:
            records = run.records(variant)
            if len(records) < self.processes and not has_failed(records):
                try:
                    self.fill(variant, run)
                except SetupError as error:
                    result = ReleaseResult(
                        release=release, reason=f"cannot be installed: {last_line(error)}"
                    )
                    self.say(f"{variant.environment.name}: stepped over: {result.reason}")
                    return result
            result = make_result(release, run.records(variant), self.quantity)
        self.say(f"{variant.environment.name}: {describe_result(result)}")
        return result

    def fill(self, variant: Variant, run: Run) -> None:
        """Measure in fresh processes until there are enough, or one fails. Raises SetupError."""
        with releases.make_environment(
            self.case.framework, variant.environment.version, self.keep, self.say
        ):
            group = Group(f"bisect/{variant.environment.name}/{variant.case.id}", (variant,))
            for number in range(self.processes):
                measure_group(group, run, number)
                if has_failed(run.records(variant)):
                    return


def has_failed(records: Iterable[Record]) -> bool:
    """Return whether a process did not run to its end, after which no other is started."""
    return any(record.status != "ok" for record in records)


def make_result(release: str, records: Sequence[Record], quantity: Quantity) -> ReleaseResult:
    """Return what the processes of a release gave; one that failed makes it a release without a
    value.
    """
    for record in records:
        if record.status != "ok":
            reason = f"{record.status}: {record.reason}"
            return ReleaseResult(
                release=release, reason=reason, versions=record.provenance.versions
            )
    versions = records[-1].provenance.versions
    values = []
    for record in records:
        value = read_value(record, quantity)
        if value:
            values.append(value)
    if not values:
        return ReleaseResult(
            release=release, reason=f"no {quantity} could be read here", versions=versions
        )
    instrument = records[-1].peak_instrument if quantity == "peak" else "instructions"
    return ReleaseResult(
        release=release, values=tuple(values), instrument=instrument, versions=versions
    )


def read_value(record: Record, quantity: Quantity) -> float | None:
    """Return the peak in bytes, or the instructions of a step."""
    if quantity == "peak":
        return record.peak_bytes
    return median(record.instructions) if record.instructions else None


def describe_result(result: ReleaseResult) -> str:
    """Return the value of a release with its unit, or why there is none."""
    if result.value is None:
        return f"stepped over: {result.reason}"
    if result.instrument == "instructions":
        return f"{result.value:,.0f} instructions"
    return f"{result.value / 2**20:,.2f} MiB ({result.instrument})"


def last_line(error: Exception) -> str:
    """Return the last line of a message that is not blank."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else ""
