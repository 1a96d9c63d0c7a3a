"""What the ledger says: a line for each arm, an entry for each claim, and how their numbers are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framebench.features.claims.rule import Sign, Verdict


@dataclass(frozen=True)
class Line:
    """One arm of a claim. Numbers are in the unit of its measure; None without a measurement, `low` and `high` without an
    interval."""

    id: str  # B2 memory/transformer/torch b4/cpu
    name: str
    decides: bool  # or is shown beside the deciding ones
    verdict: Verdict
    form: str
    metric: str  # arms of one metric may be summed up
    null: float  # the number if there is no effect
    value: float | None = None
    low: float | None = None
    high: float | None = None
    sign: Sign = "unclear"
    claimed: float | None = None
    ours: bool = False  # the claimed size is this suite's, of no article
    planned: bool = False  # or measured
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records
    tried: bool = False  # and one of them was measured, and has no numbers: again it would have none
    remark: str = ""  # why there is no number, or what precondition is not met
    records: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        return shown(self.value, self.low, self.high, self.form)

    @property
    def figure(self) -> str:
        """Without the interval."""
        return self.measured.split(" (")[0]


@dataclass(frozen=True)
class Entry:
    """One claim, or one part of it. `value`, `low` and `high` are those of the deciding arms with the claim's first metric that
    have a number: the median, and from the lowest end of their intervals to the highest."""

    id: str
    part: str  # such as memory and speed, where the claim is about several
    source: str
    says: str
    verdict: Verdict
    claimed: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    form: str
    recommendation: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    remark: str  # who disagrees or what is not met, what is missing, and facts from documents
    command: str  # what would measure what is missing; empty if nothing is
    records: tuple[str, ...]
    lines: tuple[Line, ...]
    machine: str
    size: str
    protocol: int  # that all of its arms were measured under

    @property
    def name(self) -> str:
        """`A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def measured(self) -> str:
        """Of arms that disagree the range alone: a value between them is nobody's."""
        text = shown(self.value, self.low, self.high, self.form)
        value, _, ends = text.partition(" (")
        return f"{ends.rstrip(')')} {value.partition(' ')[2]}".strip() if ends and self.verdict == "mixed" else text


def shown(value: float | None, low: float | None, high: float | None, form: str) -> str:
    """`-38.2 % (-38.9 to -37.5)`, in the form of the measure; `-` without a value, and no number without an interval. What
    prints as one number has no brackets."""
    if value is None:
        return "-"
    if low is None or high is None:
        return "no interval"
    sign = "+" if form == "change" else ""
    unit = {"points": " points", "change": " %", "share": " %", "error": " %"}.get(form, "")
    v, lo, hi = (100 * (x - (form == "change")) if unit else x for x in (value, low, high))
    digits = _digits(form, v, hi)
    texts = [f"{x:{sign},.{digits}f}" for x in (v, lo, hi)]
    return f"{texts[0]}{unit}" + (f" ({texts[1]} to {texts[2]})" if len(set(texts)) > 1 else "")


def _digits(form: str, value: float, high: float) -> int:
    if form in ("change", "share", "points", "error"):
        return 3 if form == "error" and abs(high) < 0.1 else 1
    return 0 if form == "count" or abs(value) >= 1000 else 2


def hull(lines: Sequence[Line]) -> tuple[float | None, float | None, float | None]:
    """Median, lowest and highest end; no ends where an arm has none."""
    if not lines:
        return None, None, None
    middle = median(one.value for one in lines if one.value is not None)
    lows, highs = ([end for end in ends if end is not None] for ends in zip(*((one.low, one.high) for one in lines)))
    if len(lows) < len(lines) or len(highs) < len(lines):
        return middle, None, None
    return middle, min(lows), max(highs)


def as_json(entry: Entry) -> dict[str, Any]:
    """For programs: the entry, `measured`, `low` and `high` as numbers, its arms below."""
    fields = asdict(entry) | {"measured": entry.value, "text": entry.measured}
    return fields | {"lines": [asdict(one) | {"measured": one.value, "text": one.measured} for one in entry.lines]}
