"""Do ratios of step times come out alike when they are measured another time?

The rule, fixed before anything was compared: a session is the runs of one command and what resumed them. Of each
ratio the first and the last session count that have three blocks of it at least and began more than an hour apart; each one's
interval is of its own blocks alone, moderated by its own other pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from framebench.analysis.blocks import Blocks, timed
from framebench.analysis.comparison import Comparison
from framebench.analysis.selection import of_one_version
from framebench.analysis.statistics import CONFIDENCE, Ratio
from framebench.records.record import Record
from framebench.suite.case import Case

APART = timedelta(hours=1)


class Twice(NamedTuple):
    """One ratio of one machine in two sessions, with when each began."""

    machine: str
    case: Case
    base: Case
    first: Ratio
    last: Ratio
    began: tuple[datetime, datetime]

    @property
    def of_frameworks(self) -> bool:
        return self.case.framework != self.base.framework

    @property
    def overlap(self) -> bool:
        return max(self.first.low or 0.0, self.last.low or 0.0) <= min(self.first.high or 0.0, self.last.high or 0.0)


def bases(case: Case) -> Iterator[Case]:
    """What tables show its step time over: its baseline, and of a baseline PyTorch's."""
    if case.strategy != case.stage.baseline:
        yield replace(case, strategy=case.stage.baseline)
    elif case.framework != "torch":
        yield replace(case, framework="torch")


def ratios(session: list[Record]) -> Iterator[tuple[tuple[Case, Case], Ratio]]:
    """Those of one session that have an interval."""
    blocks = Blocks(session)
    for case in {r.case: r.parsed for r in session}.values():
        for base in bases(case):
            ratio = blocks.of_cases(base.id, case.id)
            if ratio and ratio.low is not None:
                yield (case, base), ratio


def twice(records: Iterable[Record]) -> list[Twice]:
    sessions: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for r in timed(of_one_version(records)):
        sessions[r.provenance.machine, r.provenance.session].append(r)
    several: dict[tuple[str, Case, Case], list[tuple[datetime, Ratio]]] = defaultdict(list)
    for (machine, _), session in sorted(sessions.items(), key=lambda item: began(item[1])):
        for pair, ratio in ratios(session):
            several[machine, *pair].append((began(session), ratio))
    found_twice = [
        Twice(*place, sessions[0][1], sessions[-1][1], (sessions[0][0], sessions[-1][0]))
        for place, sessions in several.items()
        if sessions[-1][0] - sessions[0][0] > APART
    ]
    return sorted(found_twice, key=lambda one: (one.machine, one.of_frameworks, one.case.id))


def began(session: list[Record]) -> datetime:
    return min(r.provenance.measured_at for r in session)


def comparison(records: Iterable[Record]) -> Comparison:
    """The caption says what all of them come to."""
    every = twice(records)
    rows = [
        (
            one.machine, one.case.id, f"{one.base.framework} {one.base.strategy}" if one.of_frameworks else one.base.strategy,
            f"{one.began[0]:%Y-%m-%d %H:%M}", between(one.first), f"{one.began[1]:%Y-%m-%d %H:%M}", between(one.last),
            "yes" if one.overlap else "NO",
        )
        for one in every
    ]  # fmt: skip
    counts = {
        what: (sum(one.overlap for one in group), len(group))
        for what, group in (
            ("strategies", [one for one in every if not one.of_frameworks]),
            ("frameworks", [one for one in every if one.of_frameworks]),
        )
    }
    summary = " and ".join(f"{overlapping} of {total} ratios of {what}" for what, (overlapping, total) in counts.items())
    return Comparison.of_text(
        "Step times measured twice",
        f"The {CONFIDENCE:.0%} intervals of {summary} overlap. Each session's is of its own blocks, three at least; those of "
        "one ratio began more than an hour apart.",
        ("machine", "case", "over", "first session", "ratio", "last session", "ratio", "overlap"),
        rows,
    )


def between(ratio: Ratio) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), {ratio.blocks} blocks"
