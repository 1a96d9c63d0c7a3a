"""Ratios of step times from the records of live blocks. Arms that share no block have no ratio.

An arm is a case in one version of its framework, on one machine; all its blocks count, of whatever session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from framebench.analysis.statistics import Pool, Ratio, of_block, over_blocks, pooled
from framebench.records.record import Record


class Arm(NamedTuple):
    """What repeats from block to block."""

    machine: str
    case: str
    version: str  # empty where a process ended before it could tell


def _arm_of(r: Record) -> Arm:
    return Arm(r.provenance.machine, r.case, r.framework_version or "")


def timed(records: Iterable[Record]) -> list[Record]:
    """Those whose times count."""
    return [r for r in records if r.timed]


def _by_round(r: Record) -> dict[int, float]:
    """Seconds of a step in each round."""
    return dict(zip(r.turns_taken.round, r.step_s, strict=True))


def blocks_of_both(base: Iterable[Record], change: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Of each block that both sides were in, the two records; of a case against itself, the block's first two processes."""
    one, other = grouped(base), grouped(change)
    pairs = (
        next(((b, c) for b in one[block] for c in other[block] if place(b) != place(c)), None)
        for block in sorted(one.keys() & other.keys())
    )
    return [pair for pair in pairs if pair]


def log_ratios(base: Iterable[Record], change: Iterable[Record]) -> list[float]:
    """Of each block that both sides were in: the log ratio of step times, change over base."""
    logs = (of_block(_by_round(b), _by_round(c)) for b, c in blocks_of_both(base, change))
    return [log for log in logs if log is not None]


def grouped(records: Iterable[Record]) -> dict[str, list[Record]]:
    """By block, in the order of its arms."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for r in sorted(timed(records), key=place):
        groups[r.turns_taken.block].append(r)
    return groups


def place(r: Record) -> int:
    return r.turns_taken.arm


Pair = tuple[tuple[Arm, int], tuple[Arm, int]]  # sorted; processes of one arm in one block are numbered


class Blocks:
    """The blocks among some records, such as all of one machine: gives the ratio of any two arms that share blocks.

    How blocks differ is learnt from all pairs together: each arm against the baseline of its framework, and baselines, or where
    a block has none, against the first arm. The pair that is asked for is left out of what it is moderated by.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = timed(records)

    @cached_property
    def pairs(self) -> dict[Pair, list[float]]:
        """Log ratios by block of the pairs that are pooled."""
        logs: dict[Pair, list[float]] = defaultdict(list)
        for members in grouped(self.records).values():
            for key, log in _of_pairs(members).items():
                logs[key].append(log)
        return logs

    def others(self, base: Arm, change: Arm) -> Pool:
        """What all other pairs of the machine tell of how blocks differ."""
        return pooled(
            logs
            for ((one, _), (other, _)), logs in self.pairs.items()
            if one.machine == base.machine and {one, other} != {base, change}
        )

    def ratio(self, base: Sequence[Record], change: Sequence[Record]) -> Ratio | None:
        """Step time of `change` over that of `base`, each records of one arm. None if they share no block."""
        logs = log_ratios(base, change)
        return over_blocks(logs, self.others(_arm_of(base[0]), _arm_of(change[0]))) if logs else None

    def of_cases(self, base: str, change: str) -> Ratio | None:
        """The same by the cases' ids, among records of one machine and of one version of each framework."""
        one, other = ([r for r in self.records if r.case == case] for case in (base, change))
        return self.ratio(one, other) if one and other else None


def _of_pairs(members: Sequence[Record]) -> dict[Pair, float]:
    """The log ratio of each arm of a block to its anchor, by their names in their order."""
    names = {id(m): name(m, members) for m in members}
    logs = {}
    for r in members:
        one, other = sorted((_anchor(r, members), r), key=lambda m: names[id(m)])
        if one is not other and (log := of_block(_by_round(one), _by_round(other))) is not None:
            logs[names[id(one)], names[id(other)]] = log
    return logs


def _anchor(r: Record, members: Sequence[Record]) -> Record:
    """What an arm is set against to learn how blocks differ."""
    same_framework = [
        m for m in members if m.parsed.framework == r.parsed.framework and m.framework_version == r.framework_version
    ]
    base = next((m for m in same_framework if m.parsed.strategy == m.parsed.stage.baseline), members[0])
    return members[0] if base is r else base


def name(r: Record, members: Sequence[Record]) -> tuple[Arm, int]:
    """The same in every block."""
    alike = [place(m) for m in members if _arm_of(m) == _arm_of(r)]
    return _arm_of(r), alike.index(place(r))
