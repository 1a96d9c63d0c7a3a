"""Do ratios of step times come out alike when they are measured another time?

The rule, fixed before anything was compared: a session is the runs of one command and what resumed
them. Of each ratio the first and the last session count that have three blocks of it at least and
began more than an hour apart; each one's interval is of its own blocks alone, moderated by its own
other pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

from framebench.analysis.blocks import Blocks, select_timed
from framebench.analysis.rendering import Table
from framebench.analysis.selection import select_one_version
from framebench.analysis.statistics import CONFIDENCE, Ratio
from framebench.records.record import Record
from framebench.suite.case import Case

APART = timedelta(hours=1)


@dataclass(frozen=True)
class Repeated:
    """One ratio of one machine in two sessions, with when each began."""

    machine: str
    case: Case
    base: Case
    first: Ratio
    last: Ratio
    first_begin: datetime
    last_begin: datetime

    @property
    def is_of_frameworks(self) -> bool:
        return self.case.framework != self.base.framework

    @property
    def overlaps(self) -> bool:
        """Whether both intervals have a value in common."""
        low = max(self.first.low or 0.0, self.last.low or 0.0)
        high = min(self.first.high or 0.0, self.last.high or 0.0)
        return low <= high


def find_bases(case: Case) -> list[Case]:
    """Return what tables show a case's step time over: its baseline, and of a baseline
    PyTorch's.
    """
    if case.strategy != case.scenario_spec.baseline:
        return [replace(case, strategy=case.scenario_spec.baseline)]
    if case.framework != "torch":
        return [replace(case, framework="torch")]
    return []


def collect_ratios(session: list[Record]) -> dict[tuple[Case, Case], Ratio]:
    """Return the ratios of one session that have an interval, by case and base."""
    blocks = Blocks(session)
    cases = {r.case: r.parsed for r in session}
    ratios = {}
    for case in cases.values():
        for base in find_bases(case):
            ratio = blocks.compare_cases(base.id, case.id)
            if ratio and ratio.low is not None:
                ratios[case, base] = ratio
    return ratios


def find_repeated(records: Iterable[Record]) -> list[Repeated]:
    """Return each ratio that was measured in two sessions of a machine, those of strategies
    first.
    """
    sessions: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for r in select_timed(select_one_version(records)):
        sessions[r.provenance.machine, r.provenance.session].append(r)
    measured: dict[tuple[str, Case, Case], list[tuple[datetime, Ratio]]] = defaultdict(list)
    for (machine, _), session in sessions.items():
        for (case, base), ratio in collect_ratios(session).items():
            measured[machine, case, base].append((find_begin(session), ratio))
    repeated = []
    for (machine, case, base), found in measured.items():
        found.sort(key=itemgetter(0))
        (first_begin, first), (last_begin, last) = found[0], found[-1]
        if last_begin - first_begin > APART:
            repeated.append(Repeated(machine, case, base, first, last, first_begin, last_begin))
    return sorted(repeated, key=lambda one: (one.machine, one.is_of_frameworks, one.case.id))


def find_begin(session: list[Record]) -> datetime:
    """Return when the session's first record was measured."""
    return min(r.provenance.measured_at for r in session)


def comparison(records: Iterable[Record]) -> Table:
    """Return the table of ratios that were measured twice; its caption counts those whose intervals
    overlap.
    """
    repeated = find_repeated(records)
    of_strategies = [one for one in repeated if not one.is_of_frameworks]
    of_frameworks = [one for one in repeated if one.is_of_frameworks]
    summary = (
        f"{count_overlaps(of_strategies)} ratios of strategies and {count_overlaps(of_frameworks)} "
        "ratios of frameworks"
    )
    return Table.of_text(
        "Step times measured twice",
        f"The {CONFIDENCE:.0%} intervals of {summary} overlap. Each session's is of its own "
        "blocks, three at least; those of one ratio began more than an hour apart.",
        ("machine", "case", "over", "first session", "ratio", "last session", "ratio", "overlap"),
        [make_row(one) for one in repeated],
    )


def count_overlaps(repeated: list[Repeated]) -> str:
    """Return how many intervals overlap, such as `34 of 34`."""
    return f"{sum(one.overlaps for one in repeated)} of {len(repeated)}"


def make_row(one: Repeated) -> tuple[str, ...]:
    """Return the cells of one ratio."""
    base = (
        f"{one.base.framework} {one.base.strategy}" if one.is_of_frameworks else one.base.strategy
    )
    first = f"{one.first_begin:%Y-%m-%d %H:%M}", show_interval(one.first)
    last = f"{one.last_begin:%Y-%m-%d %H:%M}", show_interval(one.last)
    return one.machine, one.case.id, base, *first, *last, "yes" if one.overlaps else "NO"


def show_interval(ratio: Ratio) -> str:
    """Return a ratio with its interval and the number of its blocks."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), {ratio.blocks} blocks"
