"""A claim's measurements as bars on one scale, with "no effect" and the claimed value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framebench.claims.entries import Line, format_number
from framebench.claims.plans import GPU

WIDTH, ROW, LABEL = 420, 18, 250  # pixels: of the scale, of a bar, and of the names at its left


@dataclass(frozen=True)
class Bar:
    """One measurement, in pixels."""

    name: str
    text: str  # the number, as tables print it
    verdict: str
    decides: bool
    planned: bool
    y: float
    left: float  # of the interval
    width: float
    dot: float  # the value

    @property
    def label(self) -> str:
        """The name without what a hollow bar and the caption say of planned ones."""
        return (
            self.name.removesuffix(f", {GPU}").replace(" planned", "")
            if self.planned
            else self.name
        )


@dataclass(frozen=True)
class Picture:
    """Measurements of one metric.

    `null` and `claimed` are places on the scale; None where the claim names no size.
    """

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
        """Pixels from the first bar to the ends of the scale."""
        return ROW * (len(self.bars) + 2)


def draw(lines: Sequence[Line]) -> list[Picture]:
    """Return a picture for each metric and form that has an interval, the deciding one's first."""
    deciding_first = sorted(lines, key=lambda line: not line.decides)
    kinds = dict.fromkeys((line.metric, line.form) for line in deciding_first)
    drawn = []
    for kind in kinds:
        bounded = [
            line for line in lines if (line.metric, line.form) == kind and line.low is not None
        ]
        if bounded:
            drawn.append(draw_one(bounded))
    return drawn


def draw_one(lines: Sequence[Line]) -> Picture:
    """Return the picture of lines that all have an interval."""
    first = lines[0]
    marks = [first.null] if first.claimed is None else [first.null, first.claimed]
    marks += [end for line in lines for end in (line.low, line.high) if end is not None]
    low, high = min(marks), max(marks)
    span = (high - low) or 1.0

    def place(value: float | None) -> float:
        """Return where a value is on the scale, in pixels."""
        return round(WIDTH * ((value or 0.0) - low) / span, 1)

    bars = []
    for number, line in enumerate(lines):
        left = place(line.low)
        bar = Bar(
            name=line.name,
            text=line.measured,
            verdict=line.verdict,
            decides=line.counts,
            planned=line.planned,
            y=ROW * (number + 0.5),
            left=left,
            width=max(place(line.high) - left, 1.0),
            dot=place(line.value),
        )
        bars.append(bar)
    return Picture(
        metric=first.metric,
        bars=tuple(bars),
        null=place(first.null),
        claimed=None if first.claimed is None else place(first.claimed),
        claimed_text="" if first.claimed is None else format_number(first.claimed, first.form),
        ours=first.ours,
        least=format_number(low, first.form),
        most=format_number(high, first.form),
    )
