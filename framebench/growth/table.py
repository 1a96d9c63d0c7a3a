"""Does memory grow from step to step? From readings after each step: bytes per step with an interval, and a verdict.

The readings are cut into 13 segments of equal length, of each of which the median counts; between them lie 12 differences.
Their median is the slope, and the third smallest and third largest are its interval, which holds the median of what the
differences are drawn from with a probability of 96 % whatever their distribution (the sign test's interval: Conover 1999,
"Practical nonparametric statistics", section 3.2). Allocators grow in jumps: a single one moves one or two differences of
twelve, and neither the slope nor the interval. Memory grows if at least ten of twelve differences say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from framebench.analysis.comparison import ESSENTIAL, Comparison, Shown
from framebench.growth.record import Growth

SEGMENTS = 13
STRAYS = 2  # differences that may stray on either side
LEAST_STEPS = 4 * SEGMENTS
CONFIDENCE = 1 - 2 * sum(math.comb(SEGMENTS - 1, i) for i in range(STRAYS + 1)) / 2 ** (SEGMENTS - 1)
# bytes per step that matter: twice as much is always found. 1 KiB is 1 GiB in a million steps; the kernel gives whole pages
SENSITIVITY = {
    "allocator.live": 2**10, "allocator.pinned": 2**10, "host.malloc": 2**10, "host.private": 2**13, "host.shared": 2**13,
    "host.children": 2**13,
}  # fmt: skip
PILES_UP = 0.1  # of what is counted, per step
Verdict = Literal["grows", "does not grow", "undecided"]
SAID = {"grows": "memory grows", "does not grow": "memory does not grow", "undecided": "undecided whether memory grows"}
SEEN = {"grows": "grows", "does not grow": "no growth seen", "undecided": "undecided"}  # of one instrument
TOO_LITTLE = "less than it can tell"


class Slope(NamedTuple):
    """Per step, with its interval."""

    value: float
    low: float
    high: float

    def verdict(self, least: float) -> Verdict:
        """Whether it is more than `least`."""
        if self.low >= least:
            return "grows"
        return "does not grow" if self.high < least else "undecided"


def slope(readings: Sequence[int]) -> Slope:
    """Raises ValueError for fewer readings than four a segment."""
    if len(readings) < LEAST_STEPS:
        raise ValueError(f"{len(readings)} readings are too few for {SEGMENTS} segments; at least {LEAST_STEPS}")
    length = len(readings) // SEGMENTS
    last = np.asarray(readings[-length * SEGMENTS :], dtype=float).reshape(SEGMENTS, length)
    differences = np.sort(np.diff(np.median(last, axis=1))) / length
    return Slope(float(np.median(differences)), float(differences[STRAYS]), float(differences[-1 - STRAYS]))


def slopes(measured_growth: Growth) -> dict[str, Slope]:
    """Bytes per step by instrument."""
    return {name: slope(readings) for name, readings in measured_growth.bytes.items()}


def verdict(measured_growth: Growth) -> Verdict:
    """It grows if one instrument says so, and does not if all of them do: each sees what the ones before it do not. What steps
    were seen to keep must be seen by one of them, or nothing is decided."""
    verdicts = [line.verdict(SENSITIVITY[name]) for name, line in slopes(measured_growth).items()]
    if "grows" in verdicts:
        return "grows"
    return "undecided" if "undecided" in verdicts or _unseen(measured_growth) else "does not grow"


def _unseen(measured_growth: Growth) -> int:
    """The bytes per step of the largest row of what was kept, where they are more than any instrument would call nothing."""
    most = max((row.bytes_per_step or 0 for row in measured_growth.kept), default=0)
    return most if most >= max(SENSITIVITY.values()) else 0


def _piling_up(measured_growth: Growth) -> dict[str, Slope]:
    """What is counted and becomes more, per step."""
    lines = {name: slope(readings) for name, readings in measured_growth.counts.items()}
    return {name: line for name, line in lines.items() if line.verdict(PILES_UP) == "grows"}


def size(count: float | None) -> str:
    """`1,536 B`, `12.3 KiB`, `4.5 MiB`: memory per step is small."""
    if count is None or math.isnan(count):
        return "-"
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if abs(count) >= 10 * unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:,.0f} B"


def table(measured_growth: Growth) -> Comparison:
    """A row for each instrument."""
    rows = [
        {"instrument": name, "verdict": _seen(line, SENSITIVITY[name]), **line._asdict(), "least": SENSITIVITY[name]}
        for name, line in slopes(measured_growth).items()
    ]
    shown = {
        "instrument": Shown("instrument"), "verdict": Shown("verdict", priority=ESSENTIAL), "value": Shown("per step", size),
        "low": Shown("from", size), "high": Shown("to", size), "least": Shown("can tell from", size),
    }  # fmt: skip
    steps = len(next(iter(measured_growth.bytes.values())))
    own_step = measured_growth.file and not measured_growth.file.endswith(measured_growth.case)  # else a script, which has all
    step_text = f" with the step of {measured_growth.file}" if own_step else ""
    caption = (
        f"{steps} steps after {measured_growth.warm_up} of warm-up; median of {SEGMENTS - 1} differences between segments, "
        f"with its {CONFIDENCE:.0%} interval (sign test); an instrument tells growth from as much as the last column says"
    )
    notes = [f"{name}: {line.value:+,.1f} per step" for name, line in _piling_up(measured_growth).items()]
    if verdict(measured_growth) == "undecided" and (most := _unseen(measured_growth)):
        notes.append(f"watched steps kept {size(most)} each, which no instrument sees: the two do not agree")
    if verdict(measured_growth) == "grows" and not measured_growth.kept:
        notes.append(
            f"{measured_growth.watched} more steps were watched, and most of them left nothing behind that could be named"
        )
    return Comparison(
        f"{measured_growth.case}{step_text}: {SAID[verdict(measured_growth)]}",
        caption,
        pd.DataFrame(rows),
        shown,
        notes=tuple(notes),
    )


def _seen(line: Slope, least: int) -> str:
    verdict = line.verdict(least)
    return TOO_LITTLE if verdict == "does not grow" and line.low > 0 else SEEN[verdict]


def kept(measured_growth: Growth) -> Comparison:
    """What the watched steps left behind."""
    shown = {
        "what": Shown("what"), "made_at": Shown("made at"), "kind": Shown("kind"), "note": Shown("held"),
        "per_step": Shown("per step", ",.1f"), "bytes_per_step": Shown("bytes per step", size, priority=ESSENTIAL),
    }  # fmt: skip
    data = pd.DataFrame([row.model_dump() for row in measured_growth.kept], columns=list(shown))
    return Comparison(
        f"{measured_growth.case}: what piles up",
        f"in {measured_growth.watched} more steps, which were watched; the bytes of a tensor stand in the row of its storage, "
        "and those of a graph that it keeps in the table above",
        data,
        shown,
        left=4,
    )


def as_json(measured_growth: Growth) -> dict[str, Any]:
    """The readings, and what follows from them."""
    slopes_by_name = {
        name: {**s._asdict(), "verdict": s.verdict(SENSITIVITY[name])} for name, s in slopes(measured_growth).items()
    }
    return {"verdict": verdict(measured_growth), "bytes_per_step": slopes_by_name, **measured_growth.model_dump(mode="json")}
