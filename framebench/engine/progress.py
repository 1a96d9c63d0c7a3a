"""Live progress: what runs now, how far, how long still."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from framebench.engine.blocks import Listener
from framebench.engine.environments import describe
from framebench.models.spec import OWN
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.case import Case

GUESS_S = 20.0  # for a case that was never measured anywhere
BESIDE = 49  # columns of a terminal that the bar, counts and times take beside the case
LEAST = 20


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class CaseProgress(Listener):
    """A bar over the cases of a run; the time left comes from what the same cases took before on this machine, or else from
    `guesses`, in seconds. What `session` has already is done; `at_once` cases run beside each other."""

    def __init__(
        self, cases: list[Case], results: Path, console: Console, blocks: int = 1, session: str = "",
        guesses: Mapping[Case, float] = MappingProxyType({}), at_once: int = 1,
    ) -> None:  # fmt: skip
        self.console, self.at_once = console, at_once
        self.expected = _expected_seconds(cases, results, guesses)
        there = {c: min(blocks, _measured(c, results, session)) for c in cases}
        self.left = {c: blocks - count for c, count in there.items()}
        self.bar = Progress(
            BarColumn(10), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("about {task.fields[left]} left"),
            TextColumn("{task.description}"), console=console, transient=True,
        )  # fmt: skip
        total, done = len(self.left) * blocks, sum(there.values())
        self.task = self.bar.add_task("", total=total, completed=done, left=self.remaining())
        self.begun = f"measuring {len(cases)} case{'s' * (len(cases) != 1)}" + (f", each {blocks} times" if blocks > 1 else "")
        self.begun += f"; {done} of {total} are done already" if done else ""

    def __enter__(self) -> CaseProgress:
        if self.left:
            self.console.print(f"{self.begun}: about {self.remaining()}", markup=False, highlight=False, soft_wrap=True)
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def remaining(self) -> str:
        seconds = sum(self.expected[c] * blocks for c, blocks in self.left.items()) / self.at_once
        return duration(seconds)

    def phase(self, case: Case, what: str) -> None:
        self.bar.update(self.task, description=self.fitted(f"{case.id} [{what}]").replace("[", r"\["), left=self.remaining())

    def fitted(self, told: str) -> str:
        """Its end, where a line has no room for all: strategy and phase stand there."""
        room = max(LEAST, self.console.width - BESIDE)
        return told if len(told) <= room else f"…{told[1 - room :]}"

    def skipped(self, case: Case) -> None:
        """No more of it is measured."""
        self.bar.update(self.task, advance=self.left.pop(case, 0), left=self.remaining())

    def done(self, record: Record) -> None:
        """Also of cases that were not asked for, but measured beside them."""
        if self.left.get(record.parsed, 0) > 0:
            self.left[record.parsed] -= 1
            self.bar.update(self.task, advance=1, left=self.remaining())
        version = f"  {record.parsed.framework} {record.framework_version}" if record.framework_version else ""
        self.bar.console.print(f"{line(record)}{version}", markup=False, highlight=False, soft_wrap=True)


def line(record: Record, step_s: float | None = None, width: int = 41) -> str:
    """One finished case in one line, of 80 columns where its name has this width, with its own seconds of a step, or those over
    all of its blocks."""
    step_s = record.step_time_s if step_s is None else step_s
    if record.status != "ok":
        return f"{record.case:<{width}} {record.status}: {record.reason}"
    effect = "" if record.effect and record.effect.proven else "  effect not proven"
    instrument = record.peak_instrument if record.parsed.workload == OWN else record.step_instrument  # as its table has it
    peak = f"{record.peaks[instrument] / 2**20:7.1f} MiB ({instrument})" if instrument else ""
    if record.ranks:
        least = min(rank.peaks[record.peak_instrument] for rank in record.ranks) if record.peak_instrument else 0
        ranks = f"the fullest of {len(record.ranks)} ranks, the emptiest {least / 2**20:.1f}"
        return f"{record.case:<{width}} {peak:<22} {ranks}{effect}"
    return f"{record.case:<{width}} {peak:<22} {'' if step_s is None else f'{step_s * 1e3:7.1f} ms/step'}{effect}"


def _measured(case: Case, results: Path, session: str) -> int:
    """How often this session has measured it, in every release of its framework."""
    every = store.folder(results, provenance.machine_name(), f"{case.framework}-*", case).relative_to(results)
    return sum(len(store.all_of_session(folder, session)) for folder in results.glob(str(every))) if session else 0


def _expected_seconds(cases: list[Case], results: Path, guesses: Mapping[Case, float]) -> dict[Case, float]:
    """What each case took last time here; for a new one a guess: the caller's, the median of its framework's, or ours."""
    seconds_by_case: dict[Case, float] = {}
    for case in cases:
        where = store.folder(results, provenance.machine_name(), describe(case.framework).name, case)
        for path in sorted(where.glob("*.json"))[-1:]:
            try:
                seconds_by_case[case] = store.read(path).spent_s.get("total", 0.0)
            except store.BadRecord:
                continue
    medians = {f: statistics.median(v) for f, v in _by_framework(seconds_by_case).items()}
    guessed = {c: guesses.get(c) or medians.get(c.framework, GUESS_S * c.support.supported) for c in cases}
    return guessed | seconds_by_case


def _by_framework(seconds_by_case: dict[Case, float]) -> dict[str, list[float]]:
    seconds_by_framework: dict[str, list[float]] = {}
    for case, seconds in seconds_by_case.items():
        seconds_by_framework.setdefault(case.framework, []).append(seconds)
    return seconds_by_framework
