"""Ratios of step times from the records of live blocks.

Two variants that share no block have no ratio.

A variant is a case in one version of its framework, on one machine; all its blocks count, of
whatever session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from framebench.analysis.statistics import (
    Pool,
    Ratio,
    compare_blocks,
    compare_rounds,
    measure_spread,
    pool_spreads,
)
from framebench.records.record import Record


class MeasuredVariant(NamedTuple):
    """What repeats from block to block."""

    machine: str
    case: str
    version: str  # empty where a process ended before it could tell


class Process(NamedTuple):
    """One of the processes of a variant in a block: a case may be compared with itself."""

    variant: MeasuredVariant
    number: int  # from 0


Pair = tuple[Process, Process]  # sorted


def get_variant(record: Record) -> MeasuredVariant:
    """Return the variant that a record is of."""
    return MeasuredVariant(record.provenance.machine, record.case, record.framework_version or "")


def select_timed(records: Iterable[Record]) -> list[Record]:
    """Return the records whose times count."""
    return [record for record in records if record.timed]


def get_place_in_block(record: Record) -> int:
    """Return the number of a timed record's process in its block."""
    return record.turns_taken.arm


def get_seconds_by_round(record: Record) -> dict[int, float]:
    """Return the seconds of a step in each round."""
    return dict(zip(record.turns_taken.round, record.step_s, strict=True))


def group_by_block(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the timed records of each block, in the order of its processes."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(select_timed(records), key=get_place_in_block):
        groups[record.turns_taken.block].append(record)
    return groups


def match_blocks(
    base: Iterable[Record], candidate: Iterable[Record]
) -> list[tuple[Record, Record]]:
    """Return the two records of each block that both sides were in.

    Of a case against itself they are those of the block's first two processes.
    """
    base_blocks = group_by_block(base)
    candidate_blocks = group_by_block(candidate)
    pairs = []
    # sorted, so that the order of sets changes no sum
    for block in sorted(base_blocks.keys() & candidate_blocks.keys()):
        pair = find_first_pair(base_blocks[block], candidate_blocks[block])
        if pair:
            pairs.append(pair)
    return pairs


def find_first_pair(
    base: Sequence[Record], candidate: Sequence[Record]
) -> tuple[Record, Record] | None:
    """Return the first two records that are of different processes, or None."""
    for one in base:
        for other in candidate:
            if get_place_in_block(one) != get_place_in_block(other):
                return one, other
    return None


def compute_log_ratios(base: Iterable[Record], candidate: Iterable[Record]) -> list[float]:
    """Return the log ratio of step times, candidate over base, of each block with both sides."""
    logs = []
    for one, other in match_blocks(base, candidate):
        log = compare_rounds(get_seconds_by_round(one), get_seconds_by_round(other))
        if log is not None:
            logs.append(log)
    return logs


class Blocks:
    """The blocks among some records, such as all of one machine.

    They give the ratio of two variants that share blocks.
    How much blocks differ is learnt from all pairs together: each variant against the baseline of
    its framework, and baselines, or where a block has none, against the first variant. The pair
    that is compared is not among those that moderate it.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = select_timed(records)

    @cached_property
    def pairs(self) -> dict[Pair, list[float]]:
        """Return the log ratios by block of all pairs."""
        logs: dict[Pair, list[float]] = defaultdict(list)
        for members in group_by_block(self.records).values():
            for pair, log in compare_with_anchors(members).items():
                logs[pair].append(log)
        return logs

    @cached_property
    def spreads(self) -> list[tuple[set[MeasuredVariant], Pool]]:
        """The two variants of each pair, and how much their blocks differ.

        Every ratio of a machine is moderated by the same pairs.
        """
        spreads = []
        for (one, other), logs in self.pairs.items():
            if len(logs) > 1:  # a single block does not differ from any
                spreads.append(({one.variant, other.variant}, measure_spread(logs)))
        return spreads

    def pool_others(self, base: MeasuredVariant, candidate: MeasuredVariant) -> Pool:
        """Return how much blocks differ by all other pairs of the machine."""
        others = []
        for variants, spread in self.spreads:
            is_of_machine = all(variant.machine == base.machine for variant in variants)
            if is_of_machine and variants != {base, candidate}:
                others.append(spread)
        return pool_spreads(others)

    def compare(self, base: Sequence[Record], candidate: Sequence[Record]) -> Ratio | None:
        """Return the step time of `candidate` over that of `base`, each the records of one variant.

        Returns None if they share no block.
        """
        logs = compute_log_ratios(base, candidate)
        if not logs:
            return None
        others = self.pool_others(get_variant(base[0]), get_variant(candidate[0]))
        return compare_blocks(logs, others)

    def compare_cases(self, base: str, candidate: str) -> Ratio | None:
        """Return the ratio of two cases by their ids.

        The records must be of one machine and of one version of each framework.
        """
        base_records = [record for record in self.records if record.case == base]
        candidate_records = [record for record in self.records if record.case == candidate]
        if not base_records or not candidate_records:
            return None
        return self.compare(base_records, candidate_records)


def compare_with_anchors(members: Sequence[Record]) -> dict[Pair, float]:
    """Return the log ratio of each process of a block to its anchor."""
    logs: dict[Pair, float] = {}
    for record in members:
        anchor = find_anchor(record, members)
        if anchor is record:
            continue
        log = compare_rounds(get_seconds_by_round(anchor), get_seconds_by_round(record))
        if log is None:
            continue
        first = identify_process(anchor, members)
        second = identify_process(record, members)
        if first > second:  # the same pair has the same name and direction in every block
            first, second, log = second, first, -log
        logs[first, second] = log
    return logs


def find_anchor(record: Record, members: Sequence[Record]) -> Record:
    """Return the record of a block that this one is compared with, to learn how blocks differ.

    It is the baseline of its framework, or else the block's first.
    """
    for member in members:
        if member.parsed.framework != record.parsed.framework:
            continue
        if member.framework_version != record.framework_version:
            continue
        if member.parsed.strategy == member.parsed.stage.baseline:
            return members[0] if member is record else member
    return members[0]


def identify_process(record: Record, members: Sequence[Record]) -> Process:
    """Return the name of a record's process, which is the same in every block."""
    variant = get_variant(record)
    places = [get_place_in_block(member) for member in members if get_variant(member) == variant]
    return Process(variant, places.index(get_place_in_block(record)))
