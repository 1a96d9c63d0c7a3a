"""How wide are the intervals of the ratios of step times that the quick profile's tables show?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from framebench.analysis.blocks import Blocks, timed
from framebench.analysis.comparison import Comparison
from framebench.analysis.selection import of_one_version
from framebench.analysis.statistics import FEW, WIDE, Ratio
from framebench.records.record import Record
from framebench.suite.profiles import profile
from studies.noise.repeatability import bases

HEAD = ("machine", "over", "ratios", f"within {WIDE:.0%}", "share", "wider", f"fewer than {FEW} blocks")


def _shown(records: Iterable[Record]) -> Iterator[tuple[str, Ratio]]:
    """Each ratio of one machine, and whether it is one over a baseline of the same framework or over PyTorch's."""
    blocks = Blocks(records)
    for case in profile("quick"):
        for base in bases(case):
            if ratio := blocks.of_cases(base.id, case.id):
                yield "its baseline" if base.framework == case.framework else "PyTorch", ratio


def rows(records: Iterable[Record]) -> Iterator[tuple[str, ...]]:
    every = timed(of_one_version(records))
    for machine in sorted({r.provenance.machine for r in every}):
        ratios = [*_shown(r for r in every if r.provenance.machine == machine)]
        for over in dict.fromkeys(name for name, _ in ratios):
            matching_ratios = [ratio for name, ratio in ratios if name == over]
            few, narrow = sum(r.low is None for r in matching_ratios), sum(r.narrow for r in matching_ratios)
            counts = (
                len(matching_ratios),
                narrow,
                f"{narrow / len(matching_ratios):.0%}",
                len(matching_ratios) - few - narrow,
                few,
            )
            yield machine, over, *map(str, counts)


def comparison(records: Iterable[Record]) -> Comparison:
    return Comparison.of_text(
        "Intervals of step times that tables show",
        f"Of the quick profile's cases, the ratios of step times over their framework's baseline, and those of baselines over "
        f"PyTorch's: how many have an interval of {WIDE:.0%} or better to each side.",
        HEAD,
        [*rows(records)],
        left=2,
    )
