"""The newest release of a framework against the pinned one: both measured in the same blocks, judged as any two versions are.

The records lie in a folder of their own: no table of the suite is to have a release that nobody pinned.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from framebench.engine import environments, releases
from framebench.engine.blocks import Listener, Run
from framebench.engine.environments import Environment, Say, SetupError
from framebench.engine.runner import Options
from framebench.engine.timed_process import Arm
from framebench.records.pins import pinned_version
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions import measure
from framebench.versions.judge import REGRESSION, Row, rows_of
from framebench.versions.table import FOLDED, summary

FOLDER = "newest"  # below the results
FAILED = ("crashed", "timeout", "wrong", "oom")
Outcome = Literal["current", "same", "regression", "broken", "cannot be installed", "undecided"]
# A framework's outcome is the first of these that is true; the command's exit code is that of the worst framework.
CODES: dict[Outcome, int] = {
    "cannot be installed": 1, "broken": 1, "regression": 1, "undecided": 3, "same": 0, "current": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A framework's pinned version, and the newest release that the index lists."""

    framework: str
    pinned: str
    newest: str

    @classmethod
    def of(cls, framework: str) -> Pair:
        """Raises UnknownName, and SetupError where the index cannot be asked."""
        return cls(framework, pinned_version(framework), releases.newest(framework))

    @property
    def current(self) -> bool:
        """Whether the index has nothing newer than the pinned version."""
        return Version(self.newest) <= Version(self.pinned)

    @property
    def arms(self) -> tuple[str, str]:
        """Such as `jax==0.10.2` and `jax==0.11.0`."""
        return f"{self.framework}=={self.pinned}", f"{self.framework}=={self.newest}"


@dataclass(frozen=True)
class Answer:
    """The verdict on one framework's newest release, and the rows that it rests on."""

    pair: Pair
    outcome: Outcome
    said: str
    rows: tuple[Row, ...] = ()

    @property
    def code(self) -> int:
        return CODES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        rows = [row._asdict() | {"conditions": row.conditions._asdict()} for row in self.rows]
        return {
            "framework": self.pair.framework, "pinned": self.pair.pinned, "newest": self.pair.newest, "outcome": self.outcome,
            "answer": self.said, "rows": rows,
        }  # fmt: skip


def current(pair: Pair) -> Answer:
    """The answer where there is nothing to measure."""
    name = f"{pair.framework} {pair.pinned}, the pinned version,"
    if pair.newest == pair.pinned:
        return Answer(pair, "current", f"{name} is the newest release")
    return Answer(pair, "current", f"{name} is newer than {pair.newest}, the last release in the index")


@dataclass(frozen=True)
class Bench:
    """How a pair is measured; what the session has of it already is not repeated."""

    cases: list[Case]
    blocks: int
    options: Options
    results: Path
    say: Say
    threshold: float | None = None
    keep: bool = False

    def answer(self, pair: Pair, session: str, told: Listener) -> Answer:
        """Raises SetupError if the pinned version cannot be installed, OSError if a record cannot be written."""
        pinned = environments.ensure(pair.framework, pair.pinned, self.say)
        self.warm(pinned)
        with ExitStack() as stack:
            try:
                newest = stack.enter_context(releases.environment(pair.framework, pair.newest, self.keep, self.say))
                self.warm(newest)
            except SetupError as error:
                return Answer(pair, "cannot be installed", f"{pair.framework} {pair.newest} cannot be installed: {error}")
            ready = {pair.pinned: pinned, pair.newest: newest}
            measure.measure(self.cases, ready, self.blocks, session, self.options, self.results, told)
        return verdict(pair, self.records(pinned, session), self.records(newest, session), self.threshold)

    def warm(self, environment: Environment) -> None:
        """Compile kernels in both: where one alone finds them compiled, its first step is the faster one."""
        environments.warm(environment, self.options.profile or "quick", self.say)

    def records(self, environment: Environment, session: str) -> list[Record]:
        """The session's own: an earlier week's may be of another pinned version."""
        run = Run(session, self.options, self.results)
        return [r for case in self.cases for r in run.records(Arm(case, environment))]


def verdict(pair: Pair, pinned: list[Record], newest: list[Record], threshold: float | None = None) -> Answer:
    """What both sides' records say. A case that fails under the pinned version too is no news of the newest one."""
    name = f"{pair.framework} {pair.newest} against {pair.pinned}"
    # a process that ended early could not tell its version, and a side of such processes alone cannot be compared
    comparable = all(any(r.framework_version for r in side) for side in (pinned, newest))
    rows = rows_of([*pinned, *newest], *pair.arms, threshold) if comparable else []
    if broken := sorted(failed(newest) - failed(pinned)):
        return Answer(pair, "broken", f"{name}: failed under the newest release alone: {', '.join(broken)}", tuple(rows))
    if any(r.verdict == REGRESSION for r in rows):
        return Answer(pair, "regression", f"{name}: {summary(rows)}", tuple(rows))
    if all(r.verdict in FOLDED for r in rows):
        return Answer(pair, "undecided", f"{name}: nothing could be judged", tuple(rows))
    return Answer(pair, "same", f"{name}: no regression ({summary(rows)})", tuple(rows))


def failed(records: list[Record]) -> set[str]:
    """The cases that failed in some process."""
    return {r.case for r in records if r.status in FAILED}
