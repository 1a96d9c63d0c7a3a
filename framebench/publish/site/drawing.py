"""Make the pictures of a workload: panels of points, a map of all strategies, and the answer.

Everything is numbers and texts here; `templates/drawings.html` makes SVG and HTML of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.figures import fronts
from framebench.analysis.needs import format_whole_needs
from framebench.analysis.rendering import format_mib, format_number, is_missing
from framebench.analysis.tables import format_time_ratios, shorten_time_ratios
from framebench.publish.site.titles import TRIAL_SIZE, describe_batch
from framebench.strategies.registry import find_baseline

WIDTH, HEIGHT = 380, 250  # of a panel, in CSS pixels
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 34  # its margins
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4)
LETTER, LINE = 6.2, 12  # width and height of a letter of a label, in pixels
GAP = 8  # pixels between a point and its label
PADDING = 8  # pixels between the frame of a panel and the ends of its axis
NARROWEST_MEMORY_AXIS = (0.7, 1.4)  # relative to the baseline's peak
MARGIN_FACTOR = 1.1  # from the smallest peak to the end of the axis
SHADES = 4  # on each side of 1; the darkest from a third, or three times


@dataclass(frozen=True)
class Point:
    """A strategy in a panel: its place, its case and name, and its numbers in a line (`tip`)."""

    x: float
    y: float
    case: str
    name: str
    tip: str
    is_best: bool  # on the front, or the least memory where times have no ratio
    is_labelled: bool = False

    @property
    def label_width(self) -> float:
        """Return the pixels that the label and the gap before it take."""
        return GAP + LETTER * len(self.name)

    @property
    def is_label_left(self) -> bool:
        """Return whether there is room for the label only to the left of the point."""
        return self.x + self.label_width > WIDTH

    @property
    def label_ends(self) -> tuple[float, float]:
        """Return where the label begins and ends, with the point itself."""
        if self.is_label_left:
            return self.x - self.label_width, self.x
        return self.x, self.x + self.label_width


@dataclass(frozen=True)
class Panel:
    """One framework: points in a box of WIDTH x HEIGHT.

    `across` and `up` are the ticks of the axes as (place, text). Without times there is no vertical
    axis, and `front`, an SVG path, is empty.
    """

    framework: str
    points: tuple[Point, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...] = ()
    front: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of the map.

    `shade` is a CSS class: `less1` to `more4`, or `none`. `case` is its link.
    """

    text: str
    tip: str
    shade: str = ""
    case: str = ""


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis, from `low` at `start` to `high` at `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return where a value stands; values beyond the ends stand at them."""
        clipped = min(max(value, self.low), self.high)
        share = math.log(clipped / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the ticks that lie on the axis, as (place, text)."""
        on_axis = [tick for tick in TICKS if self.low <= tick <= self.high]
        return tuple((self.place(tick), f"{tick:g}") for tick in on_axis)


@dataclass(frozen=True, eq=False)
class ScenarioDrawing:
    """One workload and scenario on one machine, at one size.

    `group` has a row for each framework and strategy, at the usual batch where it was measured.
    """

    workload: str
    scenario: str
    group: pd.DataFrame

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Return the rows that compute what the baseline does, and have its ratio of peaks."""
        return select_comparable(self.group).assign(speed=lambda df: 1 / df["time_ratio"])

    @cached_property
    def timed(self) -> pd.DataFrame:
        """Return those of them whose ratio of times has an interval."""
        return self.compared[self.compared["time_ratio_low"].notna()]

    @property
    def is_timed(self) -> bool:
        """Return whether any strategy but the baselines has an interval of times."""
        return not self.timed["baseline"].all()

    @property
    def batch(self) -> int:
        """Return the usual batch."""
        return rows.find_usual_batch(self.group)

    @property
    def batch_and_size(self) -> str:
        """Return the usual batch as text, with the size where it is not the default."""
        return describe_batch(self.batch, str(self.group["size"].iloc[0]))

    @property
    def baseline(self) -> str:
        """Return the name of the baseline strategy."""
        return find_baseline(self.scenario)

    @property
    def undrawn(self) -> int:
        """Return how many strategies stand in the map alone, as their times have no interval."""
        return len(self.compared) - len(self.timed) if self.is_timed else 0

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """Return a panel for each framework that has a strategy to compare with its baseline."""
        panels = []
        points = self.timed if self.is_timed else self.compared
        for framework, of_framework in points.groupby("framework", observed=True):
            if not of_framework["baseline"].all():
                make_panel = self.make_timed_panel if self.is_timed else self.make_untimed_panel
                panels.append(make_panel(str(framework), of_framework))
        return tuple(panels)

    def make_timed_panel(self, framework: str, group: pd.DataFrame) -> Panel:
        """Return the panel of memory against speed, with the front."""
        across = make_memory_scale(group)
        slowest = min(group["speed"].min(), 0.7) / 1.1
        fastest = max(group["speed"].max(), 1.4) * 1.1
        up = Scale(slowest, fastest, HEIGHT - BOTTOM, TOP)
        best = fronts.find_front(group)
        best_cases = set(best["case"])
        points = []
        for row in rows.iterate_rows(group):
            place = across.place(row.relative_peak), up.place(row.speed)
            points.append(self.make_point(row, *place, row.case in best_cases))
        corners = []
        for row in rows.iterate_rows(best):
            corners.append((across.place(row.relative_peak), up.place(row.speed)))
        return Panel(
            framework,
            place_labels(points),
            across.ticks,
            up.ticks,
            make_staircase(corners),
        )

    def make_untimed_panel(self, framework: str, group: pd.DataFrame) -> Panel:
        """Return the panel of memory alone: each strategy has a height of its own, by its peak."""
        across = make_memory_scale(group)
        ranked = group.sort_values("relative_peak", kind="stable")
        gap = (HEIGHT - TOP - BOTTOM - 12) / max(len(ranked) - 1, 1)
        points = []
        for rank, row in enumerate(rows.iterate_rows(ranked)):
            height = round(TOP + 6 + gap * rank, 1)
            points.append(self.make_point(row, across.place(row.relative_peak), height, rank == 0))
        return Panel(framework, place_labels(points), across.ticks)

    def make_point(self, row: Any, x: float, y: float, is_best: bool) -> Point:
        """Return the point of a row, without a label yet."""
        return Point(x, y, row.case, row.strategy, self.tips[row.case], is_best)

    @cached_property
    def tips(self) -> dict[str, str]:
        """Return by case its numbers in a line, for hovering and for screen readers."""
        tips = {}
        for row, ratio in zip(rows.iterate_rows(self.group), format_time_ratios(self.group)):
            tips[row.case] = describe_row(row, ratio)
        return tips

    @property
    def frameworks(self) -> list[str]:
        """Return the frameworks in the order of the map's columns."""
        return [str(framework) for framework in self.group["framework"].cat.categories]

    @cached_property
    def map_rows(self) -> list[tuple[str, list[Cell]]]:
        """Return the rows of the map: a strategy, and two cells for each framework.

        They are for peak and time. Strategies that need least memory in any framework come first.
        """
        measured = {}
        for row, ratio in zip(rows.iterate_rows(self.group), shorten_time_ratios(self.group)):
            measured[row.strategy, row.framework] = row, ratio
        map_rows = []
        for strategy in self.rank_strategies():
            cells: list[Cell] = []
            for framework in self.frameworks:
                row, ratio = measured.get((strategy, framework), (None, "-"))
                cells += self.make_cells(row, ratio)
            map_rows.append((strategy + self.describe_other_batches(strategy), cells))
        return map_rows

    def rank_strategies(self) -> list[str]:
        """Return the strategies with numbers, those with the lowest relative peak first."""
        usable = self.group[self.group["usable"]]
        least = usable.groupby(usable["strategy"].astype(str))["relative_peak"].min()
        return list(least.sort_values(kind="stable").index)

    def describe_other_batches(self, strategy: str) -> str:
        """Return `, batch 8` where a strategy was measured at other batches than most."""
        batches = set(self.group["batch"][self.group["strategy"] == strategy])
        others = sorted(batches - {self.batch})
        return f", batch {' and '.join(map(str, others))}" if others else ""

    def make_cells(self, row: Any, ratio: str) -> tuple[Cell, Cell]:
        """Return the cells for the peak and the time of a row.

        `row` is None where nothing was measured; `ratio` is that of step times as text.
        """
        if row is None:
            return Cell("-", "not measured"), Cell("-", "not measured")
        tip = self.tips[row.case]
        if not row.usable:
            outcome = row.status if row.status != "ok" else "not proven"
            return Cell(outcome, tip, "none", row.case), Cell("-", "")
        is_decided = ratio[0].isdigit()
        return (
            Cell(
                format_number(row.relative_peak, ".2f"),
                tip,
                choose_shade(row.relative_peak),
                row.case,
            ),
            Cell(
                ratio,
                tip,
                choose_shade(row.time_ratio) if is_decided else "",
                row.case if ratio != "-" else "",
            ),
        )

    @property
    def answer(self) -> list[tuple[str, str, str, str]]:
        """Return for each framework a phrase on the least memory, the strategy and its case.

        The last two are empty where no strategy saves memory.
        """
        answers = []
        for framework, ranked in rank_savings(self.compared):
            if ranked:
                least = ranked[0]
                needs = f"{format_whole_needs(least.needs_bytes)} MiB"
                share = f"{least.needs_ratio:.0%} of the baseline's need"
                phrase = f"{needs}, {share}, {describe_cost(least)}, with"
                answers.append((framework, phrase, least.strategy, least.case))
            else:
                answers.append((framework, "no strategy saves", "", ""))
        return answers


def make_memory_scale(group: pd.DataFrame) -> Scale:
    """Return the horizontal axis of a panel: peaks relative to the baseline's."""
    narrowest_low, narrowest_high = NARROWEST_MEMORY_AXIS
    least = min(group["relative_peak"].min(), narrowest_low) / MARGIN_FACTOR
    most = min(max(group["relative_peak"].max(), narrowest_high), fronts.BEYOND)
    return Scale(least, most, LEFT + PADDING, WIDTH - RIGHT - PADDING)


def make_staircase(corners: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path of a front.

    It is made of steps: more memory buys no speed until it buys that of the next strategy.
    """
    (x, y), *others = corners
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others)


def describe_row(row: Any, ratio: str) -> str:
    """Return the numbers of a row in a line, or why it has none.

    `ratio` is that of step times as text.
    """
    name = f"{row.framework}, {row.strategy}, batch {row.batch}"
    if row.status != "ok":
        return f"{name}: {row.status}: {row.reason}"
    share = format_number(row.relative_peak, ".2f")
    peak = (
        f"peak {format_mib(row.step_bytes)} MiB by {row.step_instrument}, {share} of the baseline's"
    )
    if is_missing(row.step_time_s):
        time = "not timed"
    else:
        compared = f"{ratio} of the baseline’s" if ratio != "-" else "no ratio of times"
        time = f"step {format_number(row.step_time_s, ',.1f', 1e3)} ms, {compared}"
    caution = "" if row.usable else "; not verified or effect not seen"
    return f"{name}: {peak}; {time}{caution}"


def choose_shade(ratio: float) -> str:
    """Return the CSS class of a ratio: `less1` to `less4` below 1, `more1` to `more4` above.

    It is empty near 1, and where there is no ratio.
    """
    if is_missing(ratio) or ratio <= 0:
        return ""
    step = round(max(-1.0, min(1.0, math.log(ratio, 3))) * SHADES)
    if step == 0:
        return ""
    return f"more{step}" if step > 0 else f"less{-step}"


def place_labels(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points, with labels where there is room for them; the best choose first."""
    placed: list[Point] = []
    for point in sorted(points, key=lambda point: (not point.is_best, point.x)):
        has_room = all(are_apart(point, other) for other in placed if other.is_labelled)
        placed.append(replace(point, is_labelled=has_room))
    return tuple(placed)


def are_apart(one: Point, other: Point) -> bool:
    """Return whether the labels of two points do not touch."""
    start, end = one.label_ends
    other_start, other_end = other.label_ends
    return abs(one.y - other.y) > LINE or end < other_start or other_end < start


def draw_scenarios(df: pd.DataFrame, scenarios: Iterable[str]) -> list[ScenarioDrawing]:
    """Return what can be drawn of one workload's rows, in the order of these scenarios."""
    used = df[~df["only_for_claims"]]
    drawings = []
    for scenario in scenarios:
        drawing = draw_scenario(used[used["scenario"] == scenario], scenario)
        if drawing is not None:
            drawings.append(drawing)
    return drawings


def draw_scenario(df: pd.DataFrame, scenario: str) -> ScenarioDrawing | None:
    """Return the drawing of one scenario at the size with most rows that can be drawn.

    The size for trying out is taken only if no other can.
    """
    counts = df["size"].value_counts()

    def sort_key(size: str) -> tuple[bool, int, str]:
        return size == TRIAL_SIZE, -counts[size], size

    for size in sorted(counts.index, key=sort_key):
        shown = rows.select_shown(df[df["size"] == size])
        drawing = ScenarioDrawing(str(df["workload"].iloc[0]), scenario, shown)
        if drawing.panels:
            return drawing
    return None
