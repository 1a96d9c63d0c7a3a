"""Compute ratios of step times from the records of live blocks.

Two variants that share no block have no ratio.

A variant is a case in one version of its framework, on one machine; all its blocks count, of
whatever session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product

from framebench.analysis.statistics import (
    Pool,
    Ratio,
    compare_blocks,
    compare_rounds,
    measure_spread,
    pool_spreads,
)
from framebench.records.record import Record
from framebench.suite.sequences import group_by

# machine, case, and version; the version is empty if not recorded
VariantKey = tuple[str, str, str]
# a variant, and the number of the process among its processes in a block, from 0: a case may be
# compared with itself
ProcessKey = tuple[VariantKey, int]
ProcessPair = tuple[ProcessKey, ProcessKey]  # sorted


def get_variant(record: Record) -> VariantKey:
    """Return the variant that a record is of."""
    return record.provenance.machine, record.case, record.framework_version or ""


def select_timed(records: Iterable[Record]) -> list[Record]:
    """Return the records whose times count."""
    return [record for record in records if record.timed]


def group_by_block(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the timed records of each block, in the order of its processes."""
    groups = group_by(select_timed(records), lambda record: record.turns_taken.block)
    for members in groups.values():
        members.sort(key=lambda record: record.turns_taken.arm)
    return groups


def match_blocks(
    base: Iterable[Record], candidate: Iterable[Record]
) -> list[tuple[Record, Record]]:
    """Return a record of each side for each block that has both.

    If a case is compared with itself, they are the records of the block's first two processes.
    """
    base_blocks = group_by_block(base)
    candidate_blocks = group_by_block(candidate)
    pairs = []
    # sorted, so that the order of sets changes no sum
    for block in sorted(base_blocks.keys() & candidate_blocks.keys()):
        for one, other in product(base_blocks[block], candidate_blocks[block]):
            if one.turns_taken.arm != other.turns_taken.arm:
                pairs.append((one, other))
                break
    return pairs


def compare_in_block(base: Record, candidate: Record) -> float | None:
    """Return the log ratio of the step times of two records of one block, by round.

    Returns None if they share no round.
    """
    return compare_rounds(
        dict(zip(base.turns_taken.round, base.step_s, strict=True)),
        dict(zip(candidate.turns_taken.round, candidate.step_s, strict=True)),
    )


def compute_log_ratios(base: Iterable[Record], candidate: Iterable[Record]) -> list[float]:
    """Return the log ratio of step times, candidate over base, of each block with both sides."""
    ratios = [compare_in_block(one, other) for one, other in match_blocks(base, candidate)]
    return [log_ratio for log_ratio in ratios if log_ratio is not None]


class Blocks:
    """The blocks among some records, such as all of one machine.

    The ratio of two variants comes from the blocks that have both. How much blocks differ from each
    other is estimated from all pairs together. A pair is a variant and its anchor (`find_anchor`).
    The pair that is compared is left out of this estimate.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        """Keep the records whose times count."""
        self.records = select_timed(records)

    @cached_property
    def pairs(self) -> dict[ProcessPair, list[float]]:
        """Return the log ratios by block of all pairs."""
        log_ratios: dict[ProcessPair, list[float]] = defaultdict(list)
        for members in group_by_block(self.records).values():
            for pair, log_ratio in compare_with_anchors(members).items():
                log_ratios[pair].append(log_ratio)
        return log_ratios

    @cached_property
    def spread_of_pairs(self) -> list[tuple[set[VariantKey], Pool]]:
        """Return the two variants of each pair, and how much their blocks differ.

        `compare` pools those of a machine.
        """
        spread_of_pairs = []
        for pair, log_ratios in self.pairs.items():
            if len(log_ratios) > 1:  # a single block does not differ from any
                variants = {variant for variant, _number in pair}
                spread_of_pairs.append((variants, measure_spread(log_ratios)))
        return spread_of_pairs

    def compare(self, base: Sequence[Record], candidate: Sequence[Record]) -> Ratio | None:
        """Return the step time of `candidate` over that of `base`, or None if they share no block.

        Each side is the records of one variant.
        """
        log_ratios = compute_log_ratios(base, candidate)
        if not log_ratios:
            return None
        compared = {get_variant(base[0]), get_variant(candidate[0])}
        machine = base[0].provenance.machine
        others = []
        for variants, spread in self.spread_of_pairs:
            is_of_machine = all(variant[0] == machine for variant in variants)
            if is_of_machine and variants != compared:
                others.append(spread)
        return compare_blocks(log_ratios, pool_spreads(others))

    def compare_cases(self, base: str, candidate: str) -> Ratio | None:
        """Return the step time of the case `candidate` over that of the case `base`, by their ids.

        The records must be of one machine and of one version of each framework. Returns None if
        the two cases share no block.
        """
        sides = []
        for case in (base, candidate):
            sides.append([record for record in self.records if record.case == case])
        return self.compare(*sides)


def compare_with_anchors(members: Sequence[Record]) -> dict[ProcessPair, float]:
    """Return the log ratio of the step times of each record of a block and its anchor.

    The ratio is that of the second process of the pair over the first. Pairs are sorted, so either
    may be the anchor (`find_anchor`). Pairs that share no round are left out.
    """
    log_ratios: dict[ProcessPair, float] = {}
    processes = identify_processes(members)
    for record in members:
        anchor = find_anchor(record, members)
        if anchor is record:
            continue
        log_ratio = compare_in_block(anchor, record)
        if log_ratio is None:
            continue
        first = processes[id(anchor)]
        second = processes[id(record)]
        if first > second:  # the same pair has the same name and direction in every block
            first, second, log_ratio = second, first, -log_ratio
        log_ratios[first, second] = log_ratio
    return log_ratios


def find_anchor(record: Record, members: Sequence[Record]) -> Record:
    """Return the record with which this one is compared, to learn how blocks differ.

    It is the one of the framework's baseline in the same block, or else the block's first record.
    """
    framework = record.parsed.framework
    version = record.framework_version
    for member in members:
        case = member.parsed
        # the version last, since it takes longest to find out
        is_baseline = case.framework == framework and case.strategy == case.scenario_spec.baseline
        if is_baseline and member.framework_version == version:
            return members[0] if member is record else member
    return members[0]


def identify_processes(members: Sequence[Record]) -> dict[int, ProcessKey]:
    """Return the name of each record's process, the same in every block, by the record's `id`."""
    processes: dict[int, ProcessKey] = {}
    arms_of_variants: dict[VariantKey, list[int]] = defaultdict(list)
    for record in members:
        variant = get_variant(record)
        arms = arms_of_variants[variant]
        if record.turns_taken.arm not in arms:
            arms.append(record.turns_taken.arm)
        processes[id(record)] = variant, arms.index(record.turns_taken.arm)
    return processes
