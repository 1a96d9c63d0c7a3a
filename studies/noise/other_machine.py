"""How much of what one machine's tables say holds on another?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from framebench.analysis.comparison import Comparison, mib, number
from framebench.analysis.frames import frame, ratios
from framebench.analysis.selection import of_one_version
from framebench.analysis.statistics import Ratio
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.profiles import profile
from framebench.suite.selectors import parse

PEAK, TIME = 0.01, 0.10  # two machines' numbers that differ by no more say the same
FRAMEWORKS, REDUCED, STRATEGIES = "frameworks", "strategies in bfloat16", "strategies in float32"


class Side(NamedTuple):
    """What a machine's tables have of a case."""

    peak: float
    instrument: str
    time: Ratio | None  # over the baseline; of a baseline over PyTorch's


def comparisons(records: Iterable[Record], machines: list[str]) -> list[Comparison]:
    """Of each machine beside the first, which is the published one: the quick profile's cases that both have numbers of."""
    every = frame(of_one_version(records))
    quick = every[every["case"].isin([case.id for case in profile("quick")]) & (every["status"] == "ok")]
    published, *others = [(machine, _sides(quick[quick["machine"] == machine])) for machine in machines] or [("", {})]
    return [table(published, other) for other in others]


def _sides(df: pd.DataFrame) -> dict[str, Side]:
    times = [None if alone else of_torch if base else of_baseline for alone, base, of_baseline, of_torch in zip(
        df["baseline"] & (df["framework"] == "torch"), df["baseline"], ratios(df), ratios(df, "torch_ratio")
    )]  # fmt: skip
    return {case: Side(*side) for case, *side in zip(df["case"], df["peak_bytes"], df["peak_instrument"], times)}


def kind(case: Case) -> str:
    if case.strategy == case.stage.baseline:
        return FRAMEWORKS
    return REDUCED if "bf16" in case.strategy else STRATEGIES


def table(published: tuple[str, dict[str, Side]], other: tuple[str, dict[str, Side]]) -> Comparison:
    (one, first), (two, second) = published, other
    pairs = {case: (side, second[case]) for case, side in first.items() if case in second}
    peaks = {case: b.peak / a.peak - 1 for case, (a, b) in pairs.items() if a.instrument == b.instrument}
    times = {case: b.time.value / a.time.value - 1 for case, (a, b) in pairs.items() if a.time and b.time}
    of_kind = {
        name: [x for case, x in times.items() if kind(parse(case)) == name] for name in (STRATEGIES, REDUCED, FRAMEWORKS)
    }
    near = ", ".join(f"{within(apart, TIME)} of {name}" for name, apart in of_kind.items() if apart)
    return Comparison.of_text(
        f"{two} beside {one}",
        f"Peaks are in MiB by one instrument: {within(peaks.values(), PEAK)} are within {PEAK:.0%} of each other. "
        f"Step times are over the baseline's, and of other frameworks' baselines over PyTorch's: within {TIME:.0%} are {near}. "
        "~ = of fewer than 3 blocks.",
        ("case", f"peak, {one}", f"peak, {two}", "apart", f"time, {one}", f"time, {two}", "apart"),
        [
            (
                case, mib(a.peak), mib(b.peak), number(peaks.get(case), "+.1%"),
                *("-" if side.time is None else side.time.text for side in (a, b)), number(times.get(case), "+.0%"),
            )
            for case, (a, b) in pairs.items()
        ],
        left=1,
    )  # fmt: skip


def within(apart: Iterable[float], limit: float) -> str:
    """`60 of 64`."""
    sizes = [abs(x) for x in apart]
    return f"{sum(size <= limit for size in sizes)} of {len(sizes)}"
