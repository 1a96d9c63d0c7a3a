"""What a run on many machines would take, from what blocks have cost here: docs/cluster.md."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from framebench.analysis.comparison import Comparison, number
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS

CASES, MACHINES, BLOCKS = 10_000, 100, 5
Block = list[Record]


def comparisons(records: Sequence[Record]) -> Iterator[Comparison]:
    """Of the machine and protocol that have the most blocks with times, which were alone on their machine; nothing where there
    are none."""
    every: dict[tuple[str, int], dict[str, Block]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        if r.turns and r.spent_s.get("total") and r.parsed.size != "tiny":
            every[r.provenance.machine, r.provenance.protocol][r.turns.block].append(r)
    timed = {where: [b for b in blocks.values() if any(r.timed for r in b)] for where, blocks in every.items()}
    if any(timed.values()):
        (machine, protocol), blocks = max(timed.items(), key=lambda each: len(each[1]))
        yield _cost(machine, protocol, blocks)


def _cost(machine: str, protocol: int, blocks: Sequence[Block]) -> Comparison:
    """By framework whose strategies a block compares, and of all."""
    rows = []
    for name in (*FRAMEWORKS, "all"):
        some = [block for block in blocks if name in (_framework_of(block), "all")]
        if some:
            rows.append(row(name, some))
    caption = (
        f"Blocks with times on {machine} under protocol {protocol}. A block's minutes are the sum of what its processes took, "
        "for the time and, in a session's first block, for the memory; cases are those beside PyTorch's baseline, which JAX's "
        f"and Jittor's blocks have too. Hours are those of {CASES:,} cases of the kind, {BLOCKS} blocks each, on {MACHINES} "
        "machines that are never idle, without the environments, which each kind of machine builds once, and a minute of "
        "calibration on each."
    )
    head = ("blocks of", "measured", "cases in a block", "minutes of a block", "slowest", f"units of {CASES:,} cases", "hours")
    return Comparison.of_text("What a run on many machines takes", caption, head, tuple(rows), left=1)


def _framework_of(block: Block) -> str:
    """Whose strategies are compared: PyTorch's baseline is in others' blocks too."""
    names = {r.parsed.framework for r in block}
    return next((name for name in FRAMEWORKS[1:] if name in names), FRAMEWORKS[0])


def _own_cases(block: Block) -> int:
    return sum(r.parsed.framework == _framework_of(block) for r in block)


def row(name: str, blocks: Sequence[Block]) -> tuple[str, ...]:
    minutes = [sum(r.spent_s["total"] for r in block) / 60 for block in blocks]
    cases = statistics.mean(map(_own_cases, blocks))
    units = BLOCKS * CASES / cases
    hours = units * statistics.mean(minutes) / 60 / MACHINES
    figures = (statistics.mean(minutes), max(minutes))
    return (
        name, str(len(blocks)), number(cases, ".1f"), *(number(each, ".1f") for each in figures), number(units, ",.0f"),
        number(hours, ".1f"),
    )  # fmt: skip
