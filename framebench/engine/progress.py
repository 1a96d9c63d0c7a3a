"""Show live progress: what runs now, how far it is, and how long it still takes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from framebench.engine.blocks import Listener
from framebench.engine.environments import describe
from framebench.models.spec import USER_MODEL
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.case import Case

GUESS_S = 20.0  # for a case that was never measured anywhere
BAR_COLUMNS = 49  # of a terminal that the bar, counts and times take next to the case
LEAST_COLUMNS = 20  # for the case


def duration(seconds: float) -> str:
    """Return a time in words, such as `5 min`."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class CaseProgress(Listener):
    """A bar over the cases of a run.

    The time left comes from what the same cases took before on this machine, or else from
    `guesses`, in seconds. What
    `session` has already counts as done; `at_once` cases run next to each other.
    """

    def __init__(
        self,
        cases: list[Case],
        results: Path,
        console: Console,
        blocks: int = 1,
        session: str = "",
        guesses: Mapping[Case, float] = MappingProxyType({}),
        at_once: int = 1,
    ) -> None:
        self.console = console
        self.at_once = at_once
        self.expected_s = expected_seconds(cases, results, guesses)
        measured = {case: min(blocks, count_measured(case, results, session)) for case in cases}
        self.left = {case: blocks - count for case, count in measured.items()}  # blocks
        done, total = sum(measured.values()), blocks * len(measured)
        self.bar = Progress(
            BarColumn(10),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("about {task.fields[left]} left"),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total, completed=done, left=self.remaining())
        plural = "s" if len(cases) != 1 else ""
        self.first_line = f"measuring {len(cases)} case{plural}"
        if blocks > 1:
            self.first_line += f", each {blocks} times"
        if done:
            self.first_line += f"; {done} of {total} are done already"

    def __enter__(self) -> CaseProgress:
        if self.left:
            first_line = f"{self.first_line}: about {self.remaining()}"
            self.console.print(first_line, markup=False, highlight=False, soft_wrap=True)
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def remaining(self) -> str:
        """Return the time left in words."""
        seconds = sum(self.expected_s[case] * blocks for case, blocks in self.left.items())
        return duration(seconds / self.at_once)

    def phase(self, case: Case, what: str) -> None:
        """Show what is done for a case now."""
        description = self.fit(f"{case.id} [{what}]").replace("[", r"\[")
        self.bar.update(self.task, description=description, left=self.remaining())

    def fit(self, text: str) -> str:
        """Cut a text's beginning where a line is too short for it: strategy and phase stand at its
        end.
        """
        columns = max(LEAST_COLUMNS, self.console.width - BAR_COLUMNS)
        return text if len(text) <= columns else f"…{text[1 - columns :]}"

    def skipped(self, case: Case) -> None:
        """Count all blocks of the case as done."""
        self.bar.update(self.task, advance=self.left.pop(case, 0), left=self.remaining())

    def done(self, record: Record) -> None:
        """Print a record, also one of a case that was not asked for but measured for comparison."""
        if self.left.get(record.parsed, 0) > 0:
            self.left[record.parsed] -= 1
            self.bar.update(self.task, advance=1, left=self.remaining())
        version = (
            f"  {record.parsed.framework} {record.framework_version}"
            if record.framework_version
            else ""
        )
        self.bar.console.print(
            f"{format_record(record)}{version}", markup=False, highlight=False, soft_wrap=True
        )


def format_record(record: Record, step_s: float | None = None, width: int = 41) -> str:
    """Return one finished case in one line, of 80 columns where its name has this width.

    `step_s`: the seconds of a step over all of its blocks; by default those of the record.
    """
    if record.status != "ok":
        return f"{record.case:<{width}} {record.status}: {record.reason}"
    effect = "" if record.effect and record.effect.proven else "  effect not proven"
    is_user_model = record.parsed.workload == USER_MODEL
    # as its table has it
    instrument = record.peak_instrument if is_user_model else record.step_instrument
    peak = f"{record.peaks[instrument] / 2**20:7.1f} MiB ({instrument})" if instrument else ""
    if record.ranks:
        peak_instrument = record.peak_instrument
        emptiest = (
            min(rank.peaks[peak_instrument] for rank in record.ranks) if peak_instrument else 0
        )
        ranks = f"the fullest of {len(record.ranks)} ranks, the emptiest {emptiest / 2**20:.1f}"
        return f"{record.case:<{width}} {peak:<22} {ranks}{effect}"
    if step_s is None:
        step_s = record.step_time_s
    step_time = "" if step_s is None else f"{step_s * 1e3:7.1f} ms/step"
    return f"{record.case:<{width}} {peak:<22} {step_time}{effect}"


def count_measured(case: Case, results: Path, session: str) -> int:
    """Return how often this session has measured a case, in every release of its framework."""
    if not session:
        return 0
    folders = store.find_folder(
        results, provenance.read_machine_name(), f"{case.framework}-*", case
    ).relative_to(results)
    return sum(len(store.read_session(folder, session)) for folder in results.glob(str(folders)))


def expected_seconds(
    cases: list[Case], results: Path, guesses: Mapping[Case, float]
) -> dict[Case, float]:
    """Return what each case took last time here.

    For a new one it is a guess: the caller's, the median of its framework's other cases, or
    `GUESS_S`.
    """
    known: dict[Case, float] = {}
    for case in cases:
        where = store.find_folder(
            results, provenance.read_machine_name(), describe(case.framework).name, case
        )
        for path in sorted(where.glob("*.json"))[-1:]:
            try:
                known[case] = store.read(path).spent_s.get("total", 0.0)
            except store.BadRecord:
                continue
    by_framework: dict[str, list[float]] = defaultdict(list)
    for case, seconds in known.items():
        by_framework[case.framework].append(seconds)
    medians = {framework: statistics.median(seconds) for framework, seconds in by_framework.items()}
    expected = {}
    for case in cases:
        usual = GUESS_S if case.support.supported else 0.0
        guess = guesses.get(case) or medians.get(case.framework, usual)
        expected[case] = known.get(case, guess)
    return expected
