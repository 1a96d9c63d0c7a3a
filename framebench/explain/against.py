"""Two explained steps, one against the other: what the one holds more of at its fullest moment, to the byte."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from framebench.analysis.comparison import Comparison, mib
from framebench.explain.record import Explanation
from framebench.explain.table import FINE, LARGEST
from framebench.records.record import INSTRUMENTS

UNEXPLAINED = "unexplained"
OF_ACCOUNT = "the account"  # where no instrument measured both


class Row(NamedTuple):
    """Bytes at the two peaks."""

    layer: str
    kind: str
    base: int
    change: int

    @property
    def difference(self) -> int:
        return self.change - self.base


def peaks(base: Explanation, change: Explanation) -> tuple[str, int, int]:
    """What is explained: the peaks by the first instrument that measured both steps, in bytes."""
    shared = next((i for i in INSTRUMENTS if i in base.measured and i in change.measured), None)
    if shared is None:
        return OF_ACCOUNT, base.peak.bytes, change.peak.bytes
    return shared, base.measured[shared], change.measured[shared]


def differences(base: Explanation, change: Explanation) -> list[Row]:
    """By layer and kind, the largest difference first; the last row is what was measured and no category explains. Their
    differences sum to that of the peaks."""
    one, other = held(base), held(change)
    rows = [Row(*key, one[key], other[key]) for key in one.keys() | other.keys()]
    _, before, after = peaks(base, change)
    left = Row("", UNEXPLAINED, before - base.peak.bytes, after - change.peak.bytes)
    return [*sorted(rows, key=lambda r: (-abs(r.difference), r.layer, r.kind)), left]


def held(explanation: Explanation) -> Counter[tuple[str, str]]:
    """Bytes by layer and kind. Layers that differ in a number alone are one."""
    sizes: Counter[tuple[str, str]] = Counter()
    for h in explanation.holders:
        sizes[re.sub(r"\d+", "*", h.layer), h.kind] += h.bytes
    return sizes


def named(explanation: Explanation) -> str:
    """Case and version, such as `transformer/jax/train/fp32/b4/cpu in jax 0.10.2`."""
    framework = explanation.case.split("/")[1]
    return f"{explanation.case} in {framework} {explanation.versions[framework]}"


def table(base: Explanation, change: Explanation) -> Comparison:
    """The largest differences, what is left of them, what is unexplained, and the sum, in bytes."""
    *rows, left = differences(base, change)
    instrument, before, after = peaks(base, change)
    shown, rest = rows[:LARGEST], rows[LARGEST:]
    lines = [*shown, *([summed("the rest", rest)] if rest else []), left, summed("all", [*rows, left])]
    grown = f"{mib(after - before, f'+{FINE}')} MiB ({_ratio(before, after)})"
    return Comparison.of_text(
        f"The difference of two peaks: {named(change)} against {named(base)}",
        f"{instrument}: {mib(before, FINE)} MiB and {mib(after, FINE)} MiB, {grown}. Bytes at the fullest moment of a step: "
        f"the {LARGEST} largest differences; the rows above the last sum to it. * stands for any number. Unexplained is what "
        f"{instrument} has beyond the buffers that the account counts.",
        ("layer", "kind", "against", "case", "difference"),
        tuple((r.layer, r.kind, f"{r.base:,}", f"{r.change:,}", f"{r.difference:+,}") for r in lines),
        notes=tuple(dict.fromkeys(f"counted: {explanation.how}" for explanation in (base, change))),
    )  # fmt: skip


def summed(name: str, rows: Sequence[Row]) -> Row:
    return Row(name, "", sum(r.base for r in rows), sum(r.change for r in rows))


def _ratio(before: int, after: int) -> str:
    return f"{after / before - 1:+.1%}" if before else "from nothing"


def as_json(base: Explanation, change: Explanation) -> dict[str, Any]:
    """For programs: bytes."""
    instrument, before, after = peaks(base, change)
    return {
        "case": change.case, "against": base.case, "versions": change.versions, "against_versions": base.versions,
        "instrument": instrument, "peak": after, "against_peak": before, "difference": after - before,
        "rows": [r._asdict() | {"difference": r.difference} for r in differences(base, change)],
    }  # fmt: skip
