"""The first release of a framework in which a case's peak memory, or its instructions, changed: by bisection.

A release has changed if its value differs from that of the oldest one tried by more than the threshold, and by more than the
processes of either release differ among themselves (at least `records.bisected.FLOOR`); looked for is a change to the side to
which the newest differs. One that cannot be installed, run or verified, or whose noise hides the answer, is stepped over; where
such releases lie before the first that changed, none of them is ruled out. A value that changes and changes back between the
two ends is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from framebench.engine import releases
from framebench.engine.blocks import NOBODY, Listener, Run, measure_group
from framebench.engine.environments import Say, SetupError
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Arm
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions.bisected_record import Bisected, Tried

Measure = Callable[[str], Tried]
Asked = Literal["peak", "instructions"]
PROCESSES = 2  # of each release: its noise is how far they lie apart


def search(release_names: Sequence[str], measure: Measure, minimum: float) -> dict[str, Any]:
    """Bisect the releases, oldest first: the outcome's fields of `Bisected`."""
    tried: dict[str, Tried] = {}

    def at(i: int) -> Tried:
        if release_names[i] not in tried:
            tried[release_names[i]] = measure(release_names[i])
        return tried[release_names[i]]

    low = next((i for i in range(len(release_names)) if at(i).values), None)
    high = None if low is None else next((i for i in range(len(release_names) - 1, low, -1) if at(i).values), None)
    if low is None or high is None:
        return {"outcome": "not measured", "answer": _unmeasured(release_names, tried), "tried": tuple(tried.values())}
    base = at(low)
    if (changed := at(high).changed(base, minimum)) is not True:
        outcome = "undecided" if changed is None else "no change"
        return {"outcome": outcome, "answer": _unchanged(base, at(high), changed, minimum), "tried": tuple(tried.values())}
    grown = (at(high).change(base) or 0.0) > 0  # a small change to the other side on the way is not the one that is looked for
    stepped: set[int] = set()
    while left := [i for i in range(low + 1, high) if i not in stepped]:
        middle = left[len(left) // 2]
        verdict = at(middle).changed(base, minimum)
        if verdict is None:
            stepped.add(middle)
        elif verdict and ((at(middle).change(base) or 0.0) > 0) == grown:
            high = middle
        else:
            low = middle
    between = tuple(release_names[low + 1 : high])
    return {
        "outcome": "one of several" if between else "found", "answer": named(at(high), at(low), between),
        "first": release_names[high], "last_unchanged": release_names[low], "between": between, "tried": tuple(tried.values()),
    }  # fmt: skip


def named(first: Tried, last: Tried, between: tuple[str, ...]) -> str:
    change = first.change(last) or 0.0
    changed = f"{change:+.1%} against {last.release}"
    if not between:
        return f"first changed in {first.release}: {changed}"
    return (
        f"first changed in {', '.join(between)} or {first.release} ({changed}); those before {first.release} were stepped over"
    )


def _unchanged(base: Tried, last: Tried, changed: bool | None, minimum: float) -> str:
    change = last.change(base)
    if change is None:
        return f"{base.release} and {last.release} are not comparable: read by {base.instrument} and {last.instrument}"
    summary = f"{base.release} to {last.release}: {change:+.2%}"
    if changed is None:
        return f"cannot tell: {summary}, and equal processes differ by {max(base.noise, last.noise):.2%}"
    return f"no change by more than {minimum:.1%}: {summary}; what changed and changed back between them is not seen"


def _unmeasured(release_names: Sequence[str], tried: dict[str, Tried]) -> str:
    fine = [t.release for t in tried.values() if t.values]
    only = f"only {fine[0]}" if fine else "none"
    span = f"the {len(release_names)} releases from {release_names[0]} to {release_names[-1]}"
    return f"{only} of {span} could be measured, and it takes two"


@dataclass(frozen=True)
class Bench:
    """How a release is measured; what the session has of it already is not repeated."""

    case: Case
    quantity: Asked
    session: str
    results: Path
    say: Say
    keep: bool = False
    processes: int = PROCESSES
    told: Listener = NOBODY

    def measure(self, release: str) -> Tried:
        arm = Arm(self.case, releases.described(self.case.framework, release))
        # peaks need verified steps and no times; instructions are counted in the steps that are timed
        options = Options(rounds=0 if self.quantity == "peak" else 2, peaks_each_block=True)
        with Run(self.session, options, self.results, self.told) as run:
            if not _enough(run.records(arm), self.processes):
                try:
                    self.fill(arm, run)
                except SetupError as error:
                    failure = Tried(release=release, reason=f"cannot be installed: {_last_line(error)}")
                    self.say(f"{arm.environment.name}: stepped over: {failure.reason}")
                    return failure
            attempt = tried(release, run.records(arm), self.quantity)
        self.say(f"{arm.environment.name}: {in_words(attempt)}")
        return attempt

    def fill(self, arm: Arm, run: Run) -> None:
        with releases.environment(self.case.framework, arm.environment.version, self.keep, self.say):
            group = Group(f"bisect/{arm.environment.name}/{arm.case.id}", (arm,))
            for number in range(self.processes):
                measure_group(group, run, number)
                if any(r.status != "ok" for r in run.records(arm)):
                    return


def _enough(records: list[Record], processes: int) -> bool:
    return len(records) >= processes or any(r.status != "ok" for r in records)


def tried(release: str, records: list[Record], quantity: Asked) -> Tried:
    """What the processes of a release gave; one that failed makes it a release without a value."""
    if bad := next((r for r in records if r.status != "ok"), None):
        return Tried(release=release, reason=f"{bad.status}: {bad.reason}", versions=bad.provenance.versions)
    versions = records[-1].provenance.versions
    values = tuple(float(value) for r in records if (value := _value_of(r, quantity)))
    if not values:
        return Tried(release=release, reason=f"no {quantity} could be read here", versions=versions)
    instrument = records[-1].peak_instrument if quantity == "peak" else "instructions"
    return Tried(release=release, values=values, instrument=instrument, versions=versions)


def _value_of(record: Record, quantity: Asked) -> float | None:
    if quantity == "peak":
        return record.peak_bytes
    return median(record.instructions) if record.instructions else None


def in_words(attempt: Tried) -> str:
    if attempt.value is None:
        return f"stepped over: {attempt.reason}"
    return f"{attempt.value / 2**20:,.2f} MiB" if attempt.instrument != "instructions" else f"{attempt.value:,.0f} instructions"


def _last_line(error: Exception) -> str:
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), "")


def bisect(bench: Bench, release_names: Sequence[str], minimum: float) -> Bisected:
    """Raises OSError if a record cannot be written."""
    return answer_of(bench.case, bench.quantity, minimum, release_names, bench.measure)


def answer_of(
    case: Case, quantity: Asked, minimum: float, release_names: Sequence[str], measure: Measure, device: str | None = None
) -> Bisected:  # fmt: skip
    result = search(release_names, measure, minimum)
    return Bisected(framework=case.framework, case=case.id, quantity=quantity, threshold=minimum, device=device, **result)
