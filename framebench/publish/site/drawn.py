"""The pictures of a workload as numbers: where each strategy stands, what the map says of it, and the answer in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.comparison import mib, missing, number
from framebench.analysis.figures import fronts
from framebench.analysis.tables import relative, relative_in_short
from framebench.publish.site.titles import TRYING, at
from framebench.strategies.registry import baseline_of

WIDTH, HEIGHT = 380, 250  # of a panel, in CSS pixels
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 34
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4)
LETTER, LINE = 6.2, 12  # of a label in pixels
STEPS = 4  # shades on each side of 1; the darkest from a third, or three times


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    case: str
    name: str
    tip: str
    best: bool  # on the front, or the least memory where times have no ratio
    label: bool = False

    @property
    def before(self) -> bool:
        """Whether there is room for the label only to the left."""
        return self.x + 8 + LETTER * len(self.name) > WIDTH


@dataclass(frozen=True)
class Panel:
    """One framework: points in a box of WIDTH x HEIGHT, `across` and `up` are ticks as (place, text)."""

    framework: str
    points: tuple[Point, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    front: str  # an SVG path, empty where times have no ratio


@dataclass(frozen=True)
class Cell:
    text: str
    tip: str
    shade: str = ""  # `less1` to `more4`, or `none`
    case: str = ""


@dataclass(frozen=True)
class Scale:
    """Logarithmic, from `low` at `start` to `high` at `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        return tuple((self.at(tick), f"{tick:g}") for tick in TICKS if self.low <= tick <= self.high)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One workload and scenario on one machine: a row for each framework and strategy, at the usual batch."""

    workload: str
    scenario: str
    group: pd.DataFrame

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Rows that compute what the baseline does, and have its ratio of peaks."""
        return select_comparable(self.group).assign(speed=lambda df: 1 / df["time_ratio"])

    @cached_property
    def rated(self) -> pd.DataFrame:
        """Those of them whose ratio of times has an interval."""
        return self.compared[self.compared["time_ratio_low"].notna()]

    @property
    def timed(self) -> bool:
        return not self.rated["baseline"].all()

    @property
    def batch(self) -> int:
        return rows.usual_batch(self.group)

    @property
    def at(self) -> str:
        return at(self.batch, str(self.group["size"].iloc[0]))

    @property
    def baseline(self) -> str:
        return baseline_of(self.scenario)

    @property
    def undrawn(self) -> int:
        """How many strategies stand in the map alone, as their times have no interval."""
        return len(self.compared) - len(self.rated) if self.timed else 0

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        points = self.rated if self.timed else self.compared
        return tuple(
            self.panel(str(f), framework_rows)
            for f, framework_rows in points.groupby("framework", observed=True)
            if not framework_rows["baseline"].all()
        )

    def panel(self, framework: str, framework_rows: pd.DataFrame) -> Panel:
        across = Scale(
            min(framework_rows["relative_peak"].min(), 0.7) / 1.1,
            min(max(framework_rows["relative_peak"].max(), 1.4), fronts.BEYOND),
            LEFT + 8,
            WIDTH - RIGHT - 8,
        )
        if not self.timed:
            ranked = framework_rows.sort_values("relative_peak", kind="stable")
            gap = (HEIGHT - TOP - BOTTOM - 12) / max(len(ranked) - 1, 1)
            points = [
                self.point(r, across.at(r.relative_peak), TOP + 6 + gap * i, i == 0) for i, r in enumerate(rows.each(ranked))
            ]
            return Panel(framework, _labelled(points), across.ticks, (), "")
        up = Scale(
            min(framework_rows["speed"].min(), 0.7) / 1.1, max(framework_rows["speed"].max(), 1.4) * 1.1, HEIGHT - BOTTOM, TOP
        )
        best = fronts.find_front(framework_rows)
        points = [
            self.point(r, across.at(r.relative_peak), up.at(r.speed), r.case in set(best["case"]))
            for r in rows.each(framework_rows)
        ]
        line = _staircase([(across.at(r.relative_peak), up.at(r.speed)) for r in rows.each(best)])
        return Panel(framework, _labelled(points), across.ticks, up.ticks, line)

    def point(self, r: Any, x: float, y: float, best: bool) -> Point:
        return Point(x, round(y, 1), r.case, r.strategy, self.tips[r.case], best)

    @cached_property
    def tips(self) -> dict[str, str]:
        """By case its numbers in a line, for hovering and for screen readers."""
        shown = zip(rows.each(self.group), relative(self.group))
        return {r.case: tip(r, ratio) for r, ratio in shown}

    @property
    def frameworks(self) -> list[str]:
        return [str(f) for f in self.group["framework"].cat.categories]

    @cached_property
    def map(self) -> list[tuple[str, list[Cell]]]:
        """Strategies, those that need least memory first; of each a cell for peak and one for time in each framework."""
        used = self.group[self.group["strategy"].isin(self.group["strategy"][self.group["usable"]])]
        order = (
            used["relative_peak"]
            .where(used["usable"])
            .groupby(used["strategy"].astype(str))
            .min()
            .sort_values(kind="stable")
            .index
        )
        place = {
            (r.strategy, r.framework): (r, ratio) for r, ratio in zip(rows.each(self.group), relative_in_short(self.group))
        }
        return [
            (s + self.elsewhere(s), [c for f in self.frameworks for c in self.cells(*place.get((s, f), (None, "-")))])
            for s in order
        ]

    def elsewhere(self, strategy: str) -> str:
        """`, batch 8` where a strategy was measured at other batches than most."""
        others = sorted(set(self.group["batch"][self.group["strategy"] == strategy]) - {self.batch})
        return f", batch {' and '.join(map(str, others))}" if others else ""

    def cells(self, r: Any, ratio: str) -> Iterator[Cell]:
        if r is None:
            yield from (Cell("-", "not measured"),) * 2
        elif not r.usable:
            yield from (Cell(r.status if r.status != "ok" else "not proven", self.tips[r.case], "none", r.case), Cell("-", ""))
        else:
            yield Cell(number(r.relative_peak, ".2f"), self.tips[r.case], shade(r.relative_peak), r.case)
            clear = ratio[0].isdigit()
            yield Cell(ratio, self.tips[r.case], shade(r.time_ratio) if clear else "", r.case if ratio != "-" else "")

    @property
    def answer(self) -> list[tuple[str, str, str, str]]:
        """Framework, what it says of the least memory, the strategy and its case; the last two empty where nothing saves."""
        return [
            (f, f"{found[0].relative_peak:.0%} of the peak, {describe_cost(found[0])}, with", found[0].strategy, found[0].case)
            if found
            else (f, "no strategy saves", "", "")
            for f, found in rank_savings(self.compared)
        ]


def _staircase(corners: Sequence[tuple[float, float]]) -> str:
    """The SVG path of a front: more memory buys no speed until it buys that of the next strategy."""
    (x, y), *others = corners
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others)


def tip(r: Any, ratio: str) -> str:
    who = f"{r.framework}, {r.strategy}, batch {r.batch}"
    if r.status != "ok":
        return f"{who}: {r.status}: {r.reason}"
    peak = f"peak {mib(r.step_bytes)} MiB by {r.step_instrument}, {number(r.relative_peak, '.2f')} of the baseline's"
    compared = f"{ratio} of the baseline’s" if ratio != "-" else "no ratio of times"
    time = "not timed" if missing(r.step_time_s) else f"step {number(r.step_time_s, ',.1f', 1e3)} ms, {compared}"
    return f"{who}: {peak}; {time}{'' if r.usable else '; not verified or effect not seen'}"


def shade(ratio: float) -> str:
    """`less1` to `less4` below 1, `more1` to `more4` above; nothing near it or without a ratio."""
    if missing(ratio) or ratio <= 0:
        return ""
    step = round(max(-1.0, min(1.0, math.log(ratio, 3))) * STEPS)
    return f"{'more' if step > 0 else 'less'}{abs(step)}" if step else ""


def _labelled(points: Iterable[Point]) -> tuple[Point, ...]:
    """Names where there is room for them, those of the best first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (not p.best, p.x)):
        kept.append(replace(point, label=all(_apart(point, other) for other in kept if other.label)))
    return tuple(kept)


def _apart(one: Point, other: Point) -> bool:
    def ends(p: Point) -> tuple[float, float]:
        long = 8 + LETTER * len(p.name)
        return (p.x - long, p.x) if p.before else (p.x, p.x + long)

    (a, b), (c, d) = ends(one), ends(other)
    return abs(one.y - other.y) > LINE or b < c or d < a


def drawn(df: pd.DataFrame, order: Iterable[str]) -> list[Drawn]:
    """Of one workload's rows: what can be drawn, scenarios in this order."""
    used = df[~df["only_for_claims"]]
    found = (_at_a_size(used[used["scenario"] == scenario], scenario) for scenario in order)
    return [one for one in found if one]


def _at_a_size(mine: pd.DataFrame, scenario: str) -> Drawn | None:
    """Of one scenario: at its most usual size; at that for trying out only if no other can be drawn."""
    counts = mine["size"].value_counts()
    for size in sorted(counts.index, key=lambda size: (size == TRYING, -counts[size], size)):
        one = Drawn(str(mine["workload"].iloc[0]), scenario, rows.select_shown(mine[mine["size"] == size]))
        if one.panels:
            return one
    return None
