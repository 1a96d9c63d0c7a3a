"""Compare the newest release of a framework with the pinned one, in the same blocks.

They are judged as any two versions are. The records lie in a folder of their own, so that no table
of the suite has a release that is not pinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from framebench.cli.shared import err, open_session, say
from framebench.engine import environments, releases
from framebench.engine.blocks import Listener, Run
from framebench.engine.environments import SetupError
from framebench.engine.progress import CaseProgress
from framebench.engine.runner import Options, explain_unsupported
from framebench.engine.session import lock_results
from framebench.engine.timed_process import Variant
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.versions import measure
from framebench.versions.accepted import AcceptedRegression, split_regressions
from framebench.versions.judge import QuantityComparison, compare_versions
from framebench.versions.table import FOLDED, count_verdicts

FOLDER = "newest"  # below the results
FAILED = ("crashed", "timeout", "wrong", "oom")
NewestOutcome = Literal[
    "current", "same", "regression", "broken", "cannot be installed", "undecided"
]
# A framework's outcome is the first of these that is true; the command's exit code is that of the
# worst framework.
EXIT_CODES: dict[NewestOutcome, int] = {
    "cannot be installed": 1,
    "broken": 1,
    "regression": 1,
    "undecided": 3,
    "same": 0,
    "current": 0,
}


@dataclass(frozen=True)
class ReleasePair:
    """A framework's pinned version, and the newest release that the index lists.

    `older` are the releases between them, newest first: they are tried where the newest one cannot
    be installed.
    """

    framework: str
    pinned: str
    newest: str
    older: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Return whether the index has nothing newer than the pinned version."""
        return Version(self.newest) <= Version(self.pinned)

    def explain_why_nothing_is_measured(self) -> str:
        """Return a sentence for a pair that is current: there is nothing newer to measure."""
        return f"{self.framework} {self.pinned} is pinned, and the index has no newer release"

    @property
    def releases(self) -> tuple[str, str]:
        """Return both releases, such as `jax==0.10.2` and `jax==0.11.0`."""
        return f"{self.framework}=={self.pinned}", f"{self.framework}=={self.newest}"


def find_release_pair(framework: str) -> ReleasePair:
    """Return the pinned version, and the newer ones that the index lists.

    Raises UnknownName, and SetupError if the index cannot be asked.
    """
    pinned = find_pinned_version(framework)
    listed = releases.list_newest_first(framework)
    newer = [release for release in listed if Version(release) > Version(pinned)]
    return ReleasePair(framework, pinned, listed[0], older=tuple(newer[1:]))


@dataclass(frozen=True)
class NewestVerdict:
    """The verdict on one framework's newest release, and the rows that it rests on."""

    pair: ReleasePair
    outcome: NewestOutcome
    answer: str
    rows: tuple[QuantityComparison, ...] = ()
    new_regressions: tuple[QuantityComparison, ...] = ()
    # with the reason that each is accepted for
    known_regressions: tuple[tuple[QuantityComparison, str], ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code of the outcome."""
        return EXIT_CODES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for programs."""
        accepted = []
        for row, reason in self.known_regressions:
            accepted.append(row.as_dict() | {"accepted": reason})
        return {
            "framework": self.pair.framework,
            "pinned": self.pair.pinned,
            "newest": self.pair.newest,
            "outcome": self.outcome,
            "answer": self.answer,
            "rows": [row.as_dict() for row in self.rows],
            "new_regressions": [row.as_dict() for row in self.new_regressions],
            "known_regressions": accepted,
        }


@dataclass(frozen=True)
class PairBench:
    """Measure and judge pairs of releases."""

    blocks: int
    options: Options
    results: Path
    threshold: float | None
    keep: bool  # the environments that are made for it
    accepted: list[AcceptedRegression]

    def measure_pair(self, pair: ReleasePair) -> NewestVerdict:
        """Measure both releases in a session, and judge the newest that can be installed.

        The session resumes if it was interrupted. Nothing is measured where the pinned
        version is the newest. Raises SetupError if the pinned version cannot be installed,
        UnknownCase, and Busy.
        """
        if pair.is_current:
            return NewestVerdict(pair, "current", pair.explain_why_nothing_is_measured())
        cases = []
        for case in measure.select_cases(pair.framework, None, self.options.profile):
            if not explain_unsupported(case):
                cases.append(case)
        folder = self.results / FOLDER
        base, newest = pair.releases
        # a session with another title is another comparison
        title = f"versions newest {base} {newest} {self.blocks} {self.options}"
        with (
            lock_results(self.results),
            open_session(folder, title) as session,
            CaseProgress(cases, folder, err, 2 * self.blocks, session.id) as progress,
        ):
            return self.measure_cases(pair, cases, session.id, progress)

    def measure_cases(
        self, pair: ReleasePair, cases: list[Case], session: str, progress: Listener
    ) -> NewestVerdict:
        """Measure the cases that the session lacks, and judge all. Raises SetupError, OSError."""
        problems = []
        # without the pinned release nothing can be compared: its SetupError ends the command
        pinned = environments.ensure(pair.framework, pair.pinned, say)
        # a release whose kernels were compiled before would have the faster first step
        environments.warm(pinned, cases, say)
        folder = self.results / FOLDER
        with ExitStack() as stack:
            for version in (pair.newest, *pair.older):
                environment = releases.make_environment(pair.framework, version, self.keep, say)
                try:
                    newest = stack.enter_context(environment)
                    environments.warm(newest, cases, say)
                    break
                except SetupError as error:
                    problems.append(f"{pair.framework} {version} cannot be installed: {error}")
                    say(problems[-1])
            else:
                return NewestVerdict(pair, "cannot be installed", "; ".join(problems))
            both = {pair.pinned: pinned, newest.version: newest}
            measure.measure(cases, both, self.blocks, session, self.options, folder, progress)
        # only records of this session: earlier ones may be of another pinned version
        run = Run(session, self.options, folder)
        pinned_records: list[Record] = []
        newest_records: list[Record] = []
        for case in cases:
            pinned_records += run.get_records(Variant(case, pinned))
            newest_records += run.get_records(Variant(case, newest))
        verdict = judge_newest(
            replace(pair, newest=newest.version),
            pinned_records,
            newest_records,
            self.threshold,
            self.accepted,
        )
        return replace(verdict, answer="; ".join([*problems, verdict.answer]))


def judge_newest(
    pair: ReleasePair,
    pinned: list[Record],
    newest: list[Record],
    threshold: float | None = None,
    accepted: Iterable[AcceptedRegression] = (),
) -> NewestVerdict:
    """Return the verdict on the newest release, from the records of both releases.

    A case that fails under the pinned version too does not count, nor does a regression that is
    accepted.
    """
    rows: list[QuantityComparison] = []
    if has_version(pinned) and has_version(newest):
        rows = compare_versions([*pinned, *newest], *pair.releases, threshold)
    new_regressions, known_regressions = split_regressions(rows, accepted)
    broken = find_failed_cases(newest) - find_failed_cases(pinned)
    outcome: NewestOutcome
    if broken:
        outcome = "broken"
        answer = f"failed under the newest release alone: {', '.join(sorted(broken))}"
    elif new_regressions:
        outcome = "regression"
        answer = count_verdicts(rows)
    elif all(row.verdict in FOLDED for row in rows):
        outcome = "undecided"
        answer = "nothing could be judged"
    else:
        outcome = "same"
        new = "new " if known_regressions else ""
        answer = f"no {new}regression ({count_verdicts(rows)})"
    return NewestVerdict(
        pair,
        outcome,
        f"{pair.framework} {pair.newest} against {pair.pinned}: {answer}",
        rows=tuple(rows),
        new_regressions=tuple(new_regressions),
        known_regressions=tuple(known_regressions),
    )


def find_failed_cases(records: Iterable[Record]) -> set[str]:
    """Return the ids of the cases that failed."""
    return {record.case for record in records if record.status in FAILED}


def has_version(records: Iterable[Record]) -> bool:
    """Return whether any record has a version: a process that ended early could not tell its own.

    Records without a version cannot be compared.
    """
    return any(record.framework_version for record in records)
