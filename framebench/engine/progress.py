"""Show live progress: what runs now, how far it is, and how long it still takes."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from framebench.engine import runner
from framebench.engine.blocks import Listener
from framebench.engine.environments import describe
from framebench.engine.terminal import make_line
from framebench.models.spec import USER_MODEL
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.result import StrategyEffect

CORRECTED_FROM = 1.5  # ratio of two estimates of the same time, by which a new one is printed
CORRECTED_FROM_S = 30.0  # their difference in seconds
GUESS_S = 20.0  # expected for a case of which no record says more
BAR_COLUMNS = 52  # of the terminal's columns, those that the bar, counts and times take
LEAST_COLUMNS = 20  # of the terminal's columns, those that the case gets at least


def format_duration(seconds: float) -> str:
    """Return a time in words, such as `5 min`."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class CaseProgress(Listener):
    """A bar over the cases of a run.

    The time left comes from the times of the same cases on this machine before, or else from
    `guesses`, in seconds. Cases without either take at least as long as others of their kind did.
    What this run has measured corrects it, for other cases by the median of (measured time /
    expected time): a first case that also builds kernels must not stand for all others.
    If the first case `is_first_typical`, since everything was built before, it may stand for them.
    A line says so if the estimate changes much.
    Cases that `session` has already measured count as done. `at_once` cases run next to each other.
    Without `prints_records` the caller says what was measured, as of many equal processes.
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
        is_first_typical: bool = False,
        may_end_early: bool = False,
        prints_records: bool = True,
    ) -> None:
        """Estimate the time of each case, and count what the session has measured already."""
        self.console = console
        self.at_once = at_once
        known_s = read_known_seconds(cases, results, guesses)
        self.expected_s = estimate_seconds(cases, known_s)
        # a first run of a case also builds its kernels, and verifies its step in float64
        self.how_sure = "about" if len(known_s) == len(self.expected_s) else "at least"
        # of each case that this run has measured: the seconds of one more block
        self.next_block_s: dict[Case, float] = {}
        # of each block so far: measured / expected seconds. The expectation itself counts as one,
        # unless the first case is typical
        self.ratios: list[float] = [] if is_first_typical else [1.0]
        self.prints_records = prints_records
        self.announced_end_s = math.inf  # as the last line said, by `time.monotonic`
        measured = count_measured(results, session)
        # blocks by case
        self.blocks_left = {case: max(0, blocks - measured[case.id]) for case in cases}
        total = blocks * len(self.blocks_left)
        done = total - sum(self.blocks_left.values())
        self.bar = Progress(
            BarColumn(10),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total, completed=done, left=self.format_remaining())
        self.first_line = f"measuring {format_count(len(cases), 'case')}"
        if blocks > 1:
            times = f"at most {blocks} times" if may_end_early else f"{blocks} times"
            self.first_line += f", each {times}"
        if done:
            self.first_line += f"; {done} of {total} are done already"

    def __enter__(self) -> CaseProgress:
        """Print what will be measured and how long that takes, and show the bar."""
        if self.blocks_left:
            first_line = f"{self.first_line}: {self.format_remaining()}"
            self.console.print(first_line, markup=False, highlight=False, soft_wrap=True)
            self.announced_end_s = time.monotonic() + self.estimate_remaining()
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        self.bar.stop()

    def format_remaining(self) -> str:
        """Return the time left in words, such as `about 5 min` or `at least 5 min`."""
        return f"{self.how_sure} {format_duration(self.estimate_remaining())}"

    def estimate_remaining(self) -> float:
        """Return the seconds that all blocks that are left take."""
        seconds = 0.0
        for case, blocks in self.blocks_left.items():
            seconds += blocks * self.expect_seconds(case)
        return seconds / self.at_once

    def estimate_block(self, cases: Collection[Case]) -> float:
        """Return the seconds that one block of these cases takes."""
        return sum(self.expect_seconds(case) for case in cases) / self.at_once

    def expect_seconds(self, case: Case) -> float:
        """Return the seconds of one more block of a case."""
        correction = statistics.median_low(self.ratios) if self.ratios else 1.0
        return self.next_block_s.get(case, self.expected_s[case] * correction)

    def correct_estimate(self, case: Case) -> None:
        """Print how long the rest takes if that is much more or less than was printed before.

        `case` was measured last.
        """
        remaining_s = self.estimate_remaining()
        announced_s = max(0.0, self.announced_end_s - time.monotonic())
        shorter_s, longer_s = sorted([remaining_s, announced_s])
        if longer_s <= max(CORRECTED_FROM * shorter_s, shorter_s + CORRECTED_FROM_S):
            return
        cost = format_duration(self.expect_seconds(case))
        line = f"{self.format_remaining()} left, since {case.strategy} took {cost} here"
        self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        self.announced_end_s = time.monotonic() + remaining_s

    def learn_seconds(self, record: Record) -> None:
        """Correct what is expected of this case and of others by the time that a record took."""
        case = record.parsed
        total_s = record.spent_s.get("total")
        expected_s = self.next_block_s.get(case, self.expected_s.get(case))
        if not total_s or not expected_s:  # no process was started, or nobody waits for the case
            return
        self.ratios.append(total_s / expected_s)
        # a case has a process for its memory once, in its first block
        time_parts_s = [value for name, value in record.spent_s.items() if name.startswith("time_")]
        self.next_block_s[case] = min(
            sum(time_parts_s) or total_s, self.next_block_s.get(case, total_s)
        )
        self.how_sure = "about"

    def on_phase(self, case: Case, what: str) -> None:
        """Show what happens to a case now."""
        text = self.shorten(f"{case.id} [{what}]")
        description = text.replace("[", r"\[")  # rich would take it for markup
        self.bar.update(self.task, description=description, left=self.format_remaining())

    def shorten(self, text: str) -> str:
        """Cut off the beginning of a text that is too long: strategy and phase are at its end."""
        columns = max(LEAST_COLUMNS, self.console.width - BAR_COLUMNS)
        if len(text) <= columns:
            return text
        return f"…{text[1 - columns :]}"

    def on_skipped(self, case: Case) -> None:
        """Count all blocks of the case as done."""
        blocks = self.blocks_left.pop(case, 0)
        self.bar.update(self.task, advance=blocks, left=self.format_remaining())

    def on_done(self, record: Record) -> None:
        """Print a record, even if it was only measured so that others are compared with it."""
        case = record.parsed
        self.learn_seconds(record)
        if self.blocks_left.get(case, 0) > 0:
            self.blocks_left[case] -= 1
            self.bar.update(self.task, advance=1, left=self.format_remaining())
        if self.prints_records:
            line = format_record(record)
            if record.framework_version:
                line += f"  {case.framework} {record.framework_version}"
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        if case in self.next_block_s:  # its time was learned
            self.correct_estimate(case)


def format_record(record: Record, step_s: float | None = None, width: int = 41) -> str:
    """Return one finished case as a line, which has 80 columns if the name has `width` of them.

    `step_s` is the seconds of a step over all of its blocks; by default those of the record.
    """
    name = f"{record.case:<{width}}"
    if record.status != "ok":
        return f"{name} {record.status}: {make_line(str(record.reason))}"
    # the instrument that the table of the case shows
    is_user_model = record.parsed.workload == USER_MODEL
    instrument = record.peak_instrument if is_user_model else record.step_instrument
    peak = ""
    if instrument:
        peak = f"{record.peaks[instrument] / 2**20:7.1f} MiB ({instrument})"
    if step_s is None:
        step_s = record.step_time_s
    numbers = ""
    if record.ranks:
        numbers = describe_ranks(record)
    elif step_s is not None:
        numbers = f"{step_s * 1e3:7.1f} ms/step"
    libraries = describe_libraries(record.library_bytes)
    return f"{name} {peak:<22} {numbers}{libraries}{describe_effect(record.effect)}"


def describe_libraries(library_bytes: int | None) -> str:
    """Return what libraries keep next to the peak, or "" where that is not counted or nothing.

    It is counted only of a user's model.
    """
    mib = f"{(library_bytes or 0) / 2**20:.1f}"
    return "" if mib == "0.0" else f"  libraries {mib} MiB"


def describe_effect(effect: StrategyEffect | None) -> str:
    """Return why the strategy's effect is not proven, or "" if it is."""
    if effect and effect.proven:
        return ""
    reason = f": {make_line(effect.reason)}" if effect and effect.reason else ""
    return f"  effect not proven{reason}"


def describe_ranks(record: Record) -> str:
    """Return how many ranks there are, and the peak in MiB of the one that needs least."""
    emptiest = 0
    if record.peak_instrument:
        emptiest = min(rank.peaks[record.peak_instrument] for rank in record.ranks)
    return f"the fullest of {len(record.ranks)} ranks, the emptiest {emptiest / 2**20:.1f}"


def count_measured(results: Path, session: str) -> Counter[str]:
    """Return how often this session has measured each case, in every release of its framework."""
    counts: Counter[str] = Counter()
    if session:
        for file in store.list_files(results, provenance.read_machine_name()):
            counts.update(record.case for record in store.read_session(file, session))
    return counts


def read_known_seconds(
    cases: list[Case], results: Path, guesses: Mapping[Case, float]
) -> dict[Case, float]:
    """Return the seconds that a case took last time here, or else the caller's guess.

    A case that cannot be measured here takes none. Cases of which nothing is known are left out.
    """
    last_seconds: dict[str, float] = {}
    for framework in {case.framework for case in cases}:
        last_seconds |= read_last_seconds(framework, results)
    known = {}
    for case in cases:
        if case.id in last_seconds:
            known[case] = last_seconds[case.id]
        elif case in guesses:
            known[case] = guesses[case]
        elif runner.explain_unsupported(case):
            known[case] = 0.0
    return known


def estimate_seconds(cases: list[Case], known_s: Mapping[Case, float]) -> dict[Case, float]:
    """Return the seconds of each case: those that are known, or else the median of its kind.

    That is of the published records of the same workload, framework and size, or `GUESS_S` without
    any.
    """
    estimates = dict(known_s)
    for case in cases:
        if case not in known_s:
            medians = read_median_seconds(provenance.PUBLISHED, case.framework)
            estimates[case] = medians.get((case.workload, case.size), GUESS_S)
    return estimates


def read_last_seconds(framework: str, results: Path) -> dict[str, float]:
    """Return the seconds that the last readable record of each case took.

    The records are of the release of the framework that is measured. A case that was recorded
    without a process is left out.
    """
    file = store.find_file(results, provenance.read_machine_name(), describe(framework).name)
    seconds = {}
    for _, record in store.parse_file(Record, file):
        if record.spent_s.get("total"):
            seconds[record.case] = record.spent_s["total"]
    return seconds


@cache  # of all machines, and needed once for each case that was never measured here
def read_median_seconds(results: Path, framework: str) -> dict[tuple[str, str], float]:
    """Return the median seconds of a framework's cases in a folder, by workload and size."""
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for file in store.list_files(results):
        if not Path(file).name.startswith(f"{framework}-"):
            continue
        for _, record in store.parse_file(Record, file):
            total = record.spent_s.get("total")
            if record.step_s and total is not None:
                case = record.parsed
                seconds[case.workload, case.size].append(total)
    return {key: statistics.median(values) for key, values in seconds.items()}
