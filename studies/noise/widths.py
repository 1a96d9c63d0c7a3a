"""How wide are the intervals of the ratios of step times that the quick profile's tables show?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framebench.analysis.blocks import Blocks, select_timed
from framebench.analysis.rendering import Table
from framebench.analysis.selection import select_one_version
from framebench.analysis.statistics import FEWEST_BLOCKS, WIDE_INTERVAL, Ratio
from framebench.records.record import Record
from framebench.suite.profiles import list_profile_cases
from studies.noise.repeatability import find_bases

HEAD = (
    "machine",
    "over",
    "ratios",
    f"within {WIDE_INTERVAL:.0%}",
    "share",
    "wider",
    f"fewer than {FEWEST_BLOCKS} blocks",
)


def comparison(records: Iterable[Record]) -> Table:
    """Count, for each machine, how many ratios have an interval that is narrow enough to tell a
    difference.
    """
    records = list(select_timed(select_one_version(records)))
    rows = []
    for machine in sorted({r.provenance.machine for r in records}):
        of_machine = [r for r in records if r.provenance.machine == machine]
        for base, ratios in collect_ratios(of_machine).items():
            rows.append((machine, base, *count_widths(ratios)))
    return Table.of_text(
        "Intervals of step times that tables show",
        "Of the quick profile's cases, the ratios of step times over their framework's baseline, "
        f"and those of baselines over PyTorch's: how many have an interval of {WIDE_INTERVAL:.0%} "
        "or better to each side.",
        HEAD,
        rows,
        left=2,
    )


def collect_ratios(records: Sequence[Record]) -> dict[str, list[Ratio]]:
    """Return the ratios that one machine's tables show, by what they are over."""
    blocks = Blocks(records)
    ratios: dict[str, list[Ratio]] = {}
    for case in list_profile_cases("quick"):
        for base in find_bases(case):
            ratio = blocks.compare_cases(base.id, case.id)
            if ratio:
                name = "its baseline" if base.framework == case.framework else "PyTorch"
                ratios.setdefault(name, []).append(ratio)
    return ratios


def count_widths(ratios: Sequence[Ratio]) -> tuple[str, ...]:
    """Return the cells of a row: all ratios, the narrow ones and their share, the wide ones, those
    without an interval.
    """
    few = sum(ratio.low is None for ratio in ratios)
    narrow = sum(ratio.narrow for ratio in ratios)
    wide = len(ratios) - few - narrow
    return str(len(ratios)), str(narrow), f"{narrow / len(ratios):.0%}", str(wide), str(few)
