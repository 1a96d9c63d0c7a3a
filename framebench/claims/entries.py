"""What the ledger says: a line for each arm, an entry for each claim, and how their numbers are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framebench.claims.rule import DECIDED, DISAGREE, UNMET, Sign, Verdict, summary
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

PLACE = re.compile(rf"\w+/({'|'.join(FRAMEWORKS)})\b")


@dataclass(frozen=True)
class Line:
    """One arm of a claim. Numbers are in the unit of its measure; None without a measurement, `low` and `high` without an
    interval."""

    id: str  # B2 memory/transformer/torch b4/cpu
    name: str  # of the arm, and where
    arm: str
    decides: bool  # or is shown beside the deciding ones
    verdict: Verdict
    form: str
    metric: str  # arms of one metric may be summed up
    null: float  # the number if there is no effect
    value: float | None = None
    low: float | None = None
    high: float | None = None
    sign: Sign = "unclear"
    left: tuple[Verdict, ...] = ()  # the verdicts that the interval leaves open
    claimed: float | None = None
    ours: bool = False  # the claimed size is this suite's, of no article
    planned: bool = False  # or measured
    device: str = "cpu"  # that it was measured on, or planned for
    elsewhere: str = ""  # the machine of its probe, or the card, where that is another one
    unlike: str = ""  # how the two cases were compiled differently, beside what is compared
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records
    tried: bool = False  # and one of them was measured, and has no numbers: again it would have none
    also: str = ""  # the instrument, and what another of the same records says
    remark: str = ""  # why there is no number, or what precondition is not met
    records: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        """Of fewer blocks or processes than an interval takes, the value alone, and that it has none."""
        if self.value is None or self.bounded:
            return shown(self.value, self.low, self.high, self.form)
        return f"{shown(self.value, self.value, self.value, self.form)} (one draw: no interval between blocks or processes)"

    @property
    def number(self) -> str:
        """What was measured, and of which counter it is."""
        return f"{self.measured} {self.also}".strip()

    @property
    def label(self) -> str:
        """The arm's name without its workload and framework."""
        return " ".join(self.arm.replace(self.place, "", 1).split())

    @property
    def place(self) -> str:
        """Workload and framework, `unet3d/jax`; empty of another program."""
        found = PLACE.search(self.arm)
        return found[0] if found else ""

    @property
    def on_a_card(self) -> bool:
        """Whether a card has measured it, and the row's machine has not."""
        return bool(self.elsewhere and self.cases)

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def figure(self) -> str:
        """Without the interval."""
        return self.measured.split(" (")[0]


@dataclass(frozen=True)
class Entry:
    """One claim, or one part of it. `value`, `low` and `high` are those of all deciding arms that have a number: the median,
    and from the lowest end of their intervals to the highest."""

    id: str
    part: str  # such as memory and speed, where the claim is about several
    source: str
    says: str
    verdict: Verdict
    qualifier: str  # between what it is undecided, or for what sizes and devices it holds
    claimed: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    form: str
    recommendation: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    reasons: tuple[str, ...]  # who disagrees or what is not met, what is missing, and facts from documents
    arms_told: tuple[str, ...]  # arms of cards and beside, in words
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
    def remark(self) -> str:
        return " ".join((*self.reasons, *self.arms_told))

    @property
    def judged(self) -> str:
        """`undecided (reproduced or stronger)`."""
        return f"{self.verdict} ({self.qualifier})" if self.qualifier else self.verdict

    @property
    def measured(self) -> str:
        """Of arms that disagree the least and the most alone: a value between them is nobody's."""
        if self.verdict in DISAGREE and (values := sorted({v for one in counted(self.lines) if (v := one.value) is not None})):
            ends = [shown(value, value, value, self.form) for value in (values[0], values[-1])]
            return f"{ends[0].partition(' ')[0]} to {ends[1]}" if ends[0] != ends[1] else ends[0]
        if self.value is not None and self.low is None:
            return f"{shown(self.value, self.value, self.value, self.form)} (single draws: no interval)"
        return shown(self.value, self.low, self.high, self.form)


def counted(lines: Sequence[Line]) -> list[Line]:
    """The arms that decide and have a number."""
    return [one for one in lines if one.decides and one.verdict != UNMET and one.value is not None]


def either(verdicts: Iterable[Verdict]) -> str:
    """`reproduced or stronger`, in the order of a growing gain."""
    open_ones = set(verdicts)
    kinds = [verdict for verdict in DECIDED if verdict in open_ones]
    return f"anything from {kinds[0]} to {kinds[-1]}" if len(kinds) > 2 else " or ".join(kinds)


def qualifier(verdict: Verdict, lines: Sequence[Line], transfers_to_gpu: bool) -> str:
    """Between what an undecided claim is left; at which size its arms alone say something else; whether only a CPU has spoken
    of what a GPU may say otherwise."""
    arms = counted(lines)
    if verdict not in (*DECIDED, *DISAGREE, "undecided") or not arms:
        return ""
    sizes = _by_size(lines)
    if verdict == "undecided":
        told = (
            [_said(arms)]
            if len(sizes) < 2
            else [f"{_said_at(of_size)} at size {size}{_missing(of_size)}" for size, of_size in sizes.items()]
        )
    else:
        others = {size: _spread(of_size) for size, of_size in sizes.items()}
        told = [f"{other} at size {size}" for size, other in others.items() if other != verdict]
        if verdict in DISAGREE and len(told) > 1 and len({*others.values()}) == 1:
            told = [f"{next(iter(others.values()))} at every size"]
    on_cpu = not transfers_to_gpu and all(one.device == "cpu" for one in arms)
    return "; ".join([*filter(None, told), *(["on a CPU"] if on_cpu else [])])


def _spread(arms: Sequence[Line]) -> str:
    """What these arms say alone; of those that disagree, all that they say."""
    alone, kinds = summary([one.verdict for one in arms]), [v for v in DECIDED if v in {one.verdict for one in arms}]
    if alone not in DISAGREE or not kinds:
        return alone
    return " and ".join(kinds) if len(kinds) < 3 else f"anything from {kinds[0]} to {kinds[-1]}"


def _said(arms: Sequence[Line]) -> str:
    """What these arms say alone; of undecided ones, what is left open."""
    alone = summary([one.verdict for one in arms])
    return alone if alone != "undecided" else either(kind for one in arms for kind in (one.left or (one.verdict,)))


def _said_at(arms: Sequence[Line]) -> str:
    """What the arms of one size say: nothing where as many are missing as there are."""
    return "undecided" if 2 * len(counted(arms)) <= len(arms) else _said(arms)


def _missing(arms: Sequence[Line]) -> str:
    missing = sum(one.value is None for one in arms)
    return f", {missing} of {len(arms)} arms missing" if missing else ""


def _by_size(arms: Sequence[Line]) -> dict[str, list[Line]]:
    """The arms that decide, or would if they had a number, of each size that has one."""
    sizes: dict[str, list[Line]] = {}
    known = {Case.of(one.cases[0]).size for one in counted(arms) if one.cases}
    for one in arms:
        if one.decides and one.verdict != UNMET and one.cases and Case.of(one.cases[0]).size in known:
            sizes.setdefault(Case.of(one.cases[0]).size, []).append(one)
    return sizes


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
    fields = asdict(entry) | {"measured": entry.value, "text": entry.measured, "remark": entry.remark}
    return fields | {"lines": [asdict(one) | {"measured": one.value, "text": one.measured} for one in entry.lines]}
