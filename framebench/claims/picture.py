"""A claim's arms as bars on one scale: the interval, the value in it, "no effect", and the claimed value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framebench.claims.entries import Line, shown
from framebench.claims.plans import CARD
from framebench.claims.rule import UNMET

WIDTH, ROW, LABEL = 420, 18, 250  # pixels: of the scale, of a bar, and of the names beside it


@dataclass(frozen=True)
class Bar:
    name: str
    text: str  # the number, as tables print it
    verdict: str
    decides: bool
    planned: bool
    y: float
    left: float  # of the interval, in pixels
    width: float
    dot: float  # the value

    @property
    def label(self) -> str:
        """Without what a hollow bar and the caption say of planned ones."""
        return self.name.removesuffix(f", {CARD}").replace(" planned", "") if self.planned else self.name


@dataclass(frozen=True)
class Picture:
    """Arms of one metric. `null` and `claimed` are places on the scale; None where the claim names no size."""

    metric: str
    bars: tuple[Bar, ...]
    null: float | None
    claimed: float | None
    claimed_text: str
    ours: bool
    least: str  # what the ends of the scale stand for
    most: str

    @property
    def height(self) -> int:
        return ROW * (len(self.bars) + 2)


def pictures(lines: Sequence[Line]) -> list[Picture]:
    """One for each metric and form that has arms with an interval, the deciding one's first."""
    kinds = dict.fromkeys((line.metric, line.form) for line in sorted(lines, key=lambda line: not line.decides))
    drawn = [[line for line in lines if (line.metric, line.form) == kind and line.low is not None] for kind in kinds]
    return [_picture(of_kind) for of_kind in drawn if of_kind]


def _picture(lines: Sequence[Line]) -> Picture:
    first = lines[0]
    ends = [end for line in lines for end in (line.low, line.high) if end is not None]
    marks = [first.null] + [line.claimed for line in lines[:1] if line.claimed is not None]
    low, high = min(*ends, *marks), max(*ends, *marks)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return round(WIDTH * (value - low) / span, 1)

    bars = tuple(
        Bar(
            line.name, line.measured, line.verdict, line.decides and line.verdict != UNMET, line.planned, ROW * (i + 0.5),
            at(line.low or 0.0), max(at(line.high or 0.0) - at(line.low or 0.0), 1.0), at(line.value or 0.0),
        )
        for i, line in enumerate(lines)
    )  # fmt: skip
    text = "" if first.claimed is None else shown(first.claimed, first.claimed, first.claimed, first.form)
    edges = (shown(end, end, end, first.form) for end in (low, high))
    return Picture(
        first.metric, bars, at(first.null), None if first.claimed is None else at(first.claimed), text, first.ours, *edges
    )
