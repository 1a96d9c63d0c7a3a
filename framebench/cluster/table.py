"""Make the table of docs/cluster.md: the time of a run on many machines, from blocks here."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pandas as pd

from framebench.analysis.rendering import Table, TableColumn
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS

# of the run whose time is estimated
CASES = 10_000
MACHINES = 100
BLOCKS = 5  # of each case
Block = list[Record]
COLUMNS = {
    "blocks_of": TableColumn("blocks of"),
    "measured": TableColumn("measured"),
    "cases": TableColumn("cases in a block", ".1f"),
    "minutes": TableColumn("minutes of a block", ".1f"),
    "slowest": TableColumn("slowest", ".1f"),
    "units": TableColumn(f"units of {CASES:,} cases", ",.0f"),
    "hours": TableColumn("hours", ".1f"),
}


def make_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield a table of the machine and protocol with the most timed blocks, if there are any."""
    blocks = group_timed_blocks(records)
    if blocks:
        machine, protocol = max(blocks, key=lambda origin: len(blocks[origin]))
        yield make_table(machine, protocol, blocks[machine, protocol])


def group_timed_blocks(records: Sequence[Record]) -> dict[tuple[str, int], list[Block]]:
    """Return the blocks with times by machine and protocol.

    Blocks without times do not count: they were not alone on their machine.
    """
    members: dict[tuple[str, int, str], Block] = defaultdict(list)
    for record in records:
        has_cost = record.turns is not None and bool(record.spent_s.get("total"))
        if has_cost and record.parsed.size != "tiny":
            origin = record.provenance
            members[origin.machine, origin.protocol, record.turns_taken.block].append(record)
    blocks: dict[tuple[str, int], list[Block]] = defaultdict(list)
    for (machine, protocol, _), block in members.items():
        if any(record.timed for record in block):
            blocks[machine, protocol].append(block)
    return blocks


def make_table(machine: str, protocol: int, blocks: Sequence[Block]) -> Table:
    """Return the cost by framework whose strategies a block compares, and of all blocks."""
    rows = []
    for framework in FRAMEWORKS:
        of_framework = [block for block in blocks if find_framework(block) == framework]
        if of_framework:
            rows.append(make_row(framework, of_framework))
    rows.append(make_row("all", blocks))
    caption = (
        f"Blocks with times on {machine} under protocol {protocol}. A block's minutes are the sum "
        "of what its processes took, "
        "for the time and, in a session's first block, for the memory; cases are those beside "
        "PyTorch's baseline, which JAX's "
        f"and Jittor's blocks have too. Hours are those of {CASES:,} cases of the kind, {BLOCKS} "
        f"blocks each, on {MACHINES} "
        "machines that are never idle, without the environments, which each kind of machine "
        "builds once, and a minute of "
        "calibration on each."
    )
    return Table("What a run on many machines takes", caption, pd.DataFrame(rows), COLUMNS, left=1)


def find_framework(block: Block) -> str:
    """Return whose strategies a block compares: PyTorch's baseline is in others' blocks too."""
    names = {record.parsed.framework for record in block}
    for name in FRAMEWORKS[1:]:
        if name in names:
            return name
    return FRAMEWORKS[0]


def count_own_cases(block: Block) -> int:
    """Return how many cases a block has of the framework whose strategies it compares."""
    framework = find_framework(block)
    return sum(record.parsed.framework == framework for record in block)


def make_row(name: str, blocks: Sequence[Block]) -> dict[str, object]:
    """Return what blocks take, and what all cases would."""
    minutes = [sum(record.spent_s["total"] for record in block) / 60 for block in blocks]
    cases = statistics.mean(count_own_cases(block) for block in blocks)
    units = BLOCKS * CASES / cases
    return {
        "blocks_of": name,
        "measured": len(blocks),
        "cases": cases,
        "minutes": statistics.mean(minutes),
        "slowest": max(minutes),
        "units": units,
        "hours": units * statistics.mean(minutes) / 60 / MACHINES,
    }
