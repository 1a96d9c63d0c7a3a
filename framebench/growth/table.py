"""Does memory grow from step to step?

From readings after each step: bytes per step with an interval, and a verdict.

The readings are cut into 13 segments of equal length, of each of which the median counts; between
them lie 12 differences. Their median is the slope, and the third smallest and third largest are its
interval. Of independent differences it holds their median with a probability of 96 %, whatever
their distribution (the sign test's interval: Conover 1999, "Practical nonparametric statistics",
section 3.2). Medians of a random walk have differences that resemble their neighbours: there it
holds 0 in 94 % (20,000 simulated walks of 200 steps). Allocators grow in jumps: a single one moves
one or two differences of twelve, and neither the slope nor the interval. Memory grows if at least
ten of twelve differences say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from framebench.analysis.rendering import ESSENTIAL, Table, TableColumn
from framebench.growth.record import Growth, Leftover

SEGMENTS = 13
DIFFERENCES = SEGMENTS - 1
STRAYS = 2  # differences that may stray on either side
LEAST_STEPS = 4 * SEGMENTS
# by the sign test: the probability that more than STRAYS differences lie on each side of the median
CONFIDENCE = (
    1 - 2 * sum(math.comb(DIFFERENCES, strays) for strays in range(STRAYS + 1)) / 2**DIFFERENCES
)
# Bytes per step that matter: twice as much is always found. 1 KiB is 1 GiB in a million steps. What
# the kernel counts is in whole pages.
SENSITIVITY = {
    "allocator.live": 2**10,
    "allocator.pinned": 2**10,
    "host.malloc": 2**10,
    "host.private": 2**13,
    "host.shared": 2**13,
    "host.children": 2**13,
}
# by which the largest step exceeds the median one where steps differ: a share of it, and more than
# the kernel's count of resident pages is off by
LEAST_SHARE = 0.05
LEAST_DIFFERENCE = 2**20
LEAST_PILE = 0.1  # per step, of what is counted
Verdict = Literal["grows", "does not grow", "undecided"]


class Slope(NamedTuple):
    """The bytes that a step adds, with their interval."""

    value: float
    low: float
    high: float

    def judge(self, least: float) -> Verdict:
        """Return whether a step adds `least` or more."""
        if self.low >= least:
            return "grows"
        return "does not grow" if self.high < least else "undecided"


def estimate_slope(readings: Sequence[int]) -> Slope:
    """Return what a step adds to the readings, of which there are LEAST_STEPS or more."""
    length = len(readings) // SEGMENTS
    # those before are no whole segment
    newest = np.asarray(readings[-length * SEGMENTS :], dtype=float)
    medians = np.median(newest.reshape(SEGMENTS, length), axis=1)
    slopes = np.sort(np.diff(medians)) / length
    return Slope(
        value=float(np.median(slopes)),
        low=float(slopes[STRAYS]),
        high=float(slopes[-1 - STRAYS]),
    )


def estimate_slopes(growth: Growth) -> dict[str, Slope]:
    """Return the bytes that a step adds by instrument."""
    return {name: estimate_slope(readings) for name, readings in growth.bytes.items()}


def judge(growth: Growth) -> Verdict:
    """Return whether memory grows: one instrument that shows it is enough.

    Memory does not grow if all instruments show that, since each sees what others do not. It is
    undecided, too, where steps left things behind that no instrument sees.
    """
    verdicts = [slope.judge(SENSITIVITY[name]) for name, slope in estimate_slopes(growth).items()]
    if "grows" in verdicts:
        return "grows"
    if "undecided" in verdicts or find_unseen(growth):
        return "undecided"
    return "does not grow"


def find_unseen(growth: Growth) -> int:
    """Return the bytes per step of the largest leftover that every instrument should have seen.

    0 if nothing is left over, or too little to be seen.
    """
    largest = max((row.bytes_per_step or 0 for row in growth.kept), default=0)
    return largest if largest >= max(SENSITIVITY.values()) else 0


def find_piles(growth: Growth) -> dict[str, Slope]:
    """Return the objects whose number grows: by name, how many each step adds."""
    piles = {}
    for name, readings in growth.counts.items():
        slope = estimate_slope(readings)
        if slope.judge(LEAST_PILE) == "grows":
            piles[name] = slope
    return piles


def describe_size(size: float | None) -> str:
    """Return bytes as `1,536 B`, `12.3 KiB` or `4.5 MiB`: what a step adds is small."""
    if size is None or math.isnan(size):
        return "-"
    if abs(size) >= 10 * 2**20:
        return f"{size / 2**20:,.1f} MiB"
    if abs(size) >= 10 * 2**10:
        return f"{size / 2**10:,.1f} KiB"
    return f"{size:,.0f} B"


def tabulate_slopes(growth: Growth) -> Table:
    """Return a table with a row for each instrument; its title is the verdict."""
    rows = []
    for name, slope in estimate_slopes(growth).items():
        least = SENSITIVITY[name]
        verdict: str = slope.judge(least)
        if verdict == "does not grow" and slope.low > 0:
            verdict = "too little to tell"  # it rises, by less than the instrument is trusted with
        row = {"instrument": name, "verdict": verdict, "least": least}
        rows.append({**row, **slope._asdict()})
    shown = {
        "instrument": TableColumn("instrument"),
        "verdict": TableColumn("verdict", priority=ESSENTIAL),
        "value": TableColumn("per step", describe_size),
        "low": TableColumn("from", describe_size),
        "high": TableColumn("to", describe_size),
        "least": TableColumn("can tell from", describe_size),
    }
    steps = len(next(iter(growth.bytes.values())))
    caption = (
        f"{steps} steps after {growth.warm_up} of warm-up; median of {DIFFERENCES} differences "
        f"between segments, with its {CONFIDENCE:.0%} interval (sign test); an instrument tells "
        "growth from as much as the last column says"
    )
    verdict = judge(growth)
    answer = "undecided whether memory grows" if verdict == "undecided" else f"memory {verdict}"
    title = f"{describe_subject(growth)}: {answer}"
    return Table(title, caption, pd.DataFrame(rows), shown, notes=tuple(list_notes(growth)))


def describe_growth(growth: Growth) -> str:
    """Return by how much memory grows in a step, and the first of what piles up; "" if it does not.

    The bytes are of the first instrument that tells growth.
    """
    for name, slope in estimate_slopes(growth).items():
        if slope.judge(SENSITIVITY[name]) == "grows":
            size = describe_size(slope.value)
            break
    else:
        return ""
    text = f"{describe_subject(growth)}: memory grows by {size} a step ({name})."
    causes = list_causes(growth)
    if causes:
        cause = causes[0]
        text += f" First of what piles up: {cause.what}, made at {cause.made_at}"
        text += f"; {cause.note}." if cause.note else "."
    return text


def describe_subject(growth: Growth) -> str:
    """Return the case or script whose steps were read.

    The name is followed by the file of the user's step, if one took the place of the case's.
    """
    if growth.file and not is_script(growth):
        return f"{growth.case} with the step of {growth.file}"
    return growth.case


def list_notes(growth: Growth) -> list[str]:
    """Return notes on what piles up, and where readings and leftovers disagree."""
    notes = [f"{name}: {slope.value:+,.1f} per step" for name, slope in find_piles(growth).items()]
    verdict = judge(growth)
    unseen = find_unseen(growth)
    undecided = []
    for name, slope in estimate_slopes(growth).items():
        if slope.judge(SENSITIVITY[name]) == "undecided":
            undecided.append(name)
    if verdict == "undecided" and undecided:
        steps = len(growth.bytes[undecided[0]])
        notes.append(
            f"undecided by {', '.join(undecided)}: the interval is as wide as this because memory "
            "differs from step to step, as where batches differ in size. What decides it: "
            f"--steps {2 * steps} or more, or batches of one length"
        )
    if verdict != "grows":
        notes += describe_largest_step(growth)
    if verdict == "undecided" and unseen:
        notes.append(
            f"watched steps kept {describe_size(unseen)} each, which no instrument "
            "sees: the two do not agree"
        )
    if verdict == "grows" and not growth.kept:
        note = f"most of the last {growth.watched} steps left nothing behind that could be named"
        if is_script(growth):
            note += (
                ". If memory grows in few of the steps: --step-at FUNCTION, with a function that "
                "your script calls as rarely, makes each of its calls a step"
            )
        notes.append(note)
    return notes


def list_causes(growth: Growth) -> tuple[Leftover, ...]:
    """Return what most of the watched steps left behind, and if memory grows, what a few did."""
    rare = growth.rarely_kept if judge(growth) == "grows" else ()
    return growth.kept + rare


def is_script(growth: Growth) -> bool:
    """Return whether the steps were those of a script."""
    return growth.file is not None and growth.file.endswith(growth.case)


def describe_largest_step(growth: Growth) -> list[str]:
    """Return in a sentence which step took most memory; nothing where steps are alike."""
    if not growth.rises:
        return []
    largest, median = max(growth.rises), float(np.median(growth.rises))
    if largest - median <= max(LEAST_DIFFERENCE, LEAST_SHARE * median):
        return []
    step = growth.warm_up + growth.rises.index(largest) + 1
    return [
        f"steps differ: step {step} raised resident memory most, by {describe_size(largest)}, and "
        f"the median step by {describe_size(median)}. Where batches vary in length, the longest is "
        "what runs out of memory"
    ]


def tabulate_kept(growth: Growth) -> Table:
    """Return a table of what the watched steps left behind."""
    shown = {
        "what": TableColumn("what"),
        "made_at": TableColumn("made at"),
        "kind": TableColumn("kind"),
        "note": TableColumn("held"),
        "per_step": TableColumn("per step", ",.1f"),
        "bytes_per_step": TableColumn("bytes per step", describe_size, priority=ESSENTIAL),
    }
    caption = (
        f"left behind by the last {growth.watched} of the watched steps; the bytes of a tensor "
        "stand in the row of its storage, and those of a graph that it keeps in the table above"
    )
    data = pd.DataFrame([row.model_dump() for row in list_causes(growth)], columns=list(shown))
    return Table(f"{growth.case}: what piles up", caption, data, shown, left=4)


def as_json(growth: Growth) -> dict[str, Any]:
    """Return the readings, and what follows from them."""
    slopes = {}
    for name, slope in estimate_slopes(growth).items():
        slopes[name] = {**slope._asdict(), "verdict": slope.judge(SENSITIVITY[name])}
    return {"verdict": judge(growth), "bytes_per_step": slopes, **growth.model_dump(mode="json")}
