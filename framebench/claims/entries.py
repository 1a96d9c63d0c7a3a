"""The ledger's lines and entries, and how their numbers are printed.

A line is one measurement, an entry one claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framebench.claims.rule import DECIDED, DISAGREE, UNMET, Sign, Verdict, summarize
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

PLACE = re.compile(rf"\w+/({'|'.join(FRAMEWORKS)})\b")
UNITS = {"points": " points", "change": " %", "share": " %", "error": " %"}


@dataclass(frozen=True)
class Line:
    """One measurement of a claim.

    Numbers are in the unit of its measure; None without a measurement, `low` and `high` without an
    interval. The names of the fields are those of `--json`.
    """

    id: str  # B2 memory/transformer/torch b4/cpu
    name: str  # of the measurement, and where
    arm: str  # the name alone
    decides: bool  # or is informational
    verdict: Verdict
    form: str
    metric: str  # measurements of one metric may be summed up
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
    aside: bool = False  # it would decide if a GPU's lines did not
    elsewhere: str = ""  # the machine of its probe, or the GPU, where that is another one
    unlike: str = ""  # how the two cases were compiled differently, apart from what is compared
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records
    # and one of them was measured, and has no numbers: repeated it would have none
    tried: bool = False
    also: str = ""  # the instrument, and what another of the same records says
    remark: str = ""  # why there is no number, or what precondition is not met
    records: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        """The number with its interval.

        Of fewer blocks or processes than an interval takes, it says that it has none.
        """
        if self.value is None or self.is_bounded:
            return format_effect(self.value, self.low, self.high, self.form)
        return (
            f"{format_number(self.value, self.form)} (one draw: no interval between blocks or "
            "processes)"
        )

    @property
    def number(self) -> str:
        """What was measured, and by which counter."""
        return f"{self.measured} {self.also}".strip()

    @property
    def figure(self) -> str:
        """The number without the interval."""
        return self.measured.split(" (")[0]

    @property
    def label(self) -> str:
        """The measurement's name without its workload and framework."""
        return " ".join(self.arm.replace(self.place, "", 1).split())

    @property
    def place(self) -> str:
        """Workload and framework, `unet3d/jax`; empty of another program."""
        found = PLACE.search(self.arm)
        return found[0] if found else ""

    @property
    def on_other_gpu(self) -> bool:
        """Whether a GPU has measured it, and the row's machine has not."""
        return bool(self.elsewhere and self.cases)

    @property
    def is_bounded(self) -> bool:
        """Whether it has an interval."""
        return self.low is not None and self.high is not None

    @property
    def counts(self) -> bool:
        """Whether it is used for the verdict, its precondition being met."""
        return self.decides and self.verdict != UNMET


@dataclass(frozen=True)
class Entry:
    """One claim, or one part of it.

    `value`, `low` and `high` are those of all deciding measurements that have a number: the median,
    and from the lowest end of their intervals to the highest. The names of the fields are those of
    `--json`.
    """

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
    # who disagrees or what is not met, what is missing, and facts from documents
    reasons: tuple[str, ...]
    arms_told: tuple[str, ...]  # measurements of GPUs and informational ones, in words
    command: str  # what would measure what is missing; empty if nothing is
    records: tuple[str, ...]
    lines: tuple[Line, ...]
    machine: str
    size: str
    protocol: int  # that all was measured under

    @property
    def name(self) -> str:
        """`A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def remark(self) -> str:
        """What stands below a row."""
        return " ".join((*self.reasons, *self.arms_told))

    @property
    def judged(self) -> str:
        """`undecided (reproduced or stronger)`."""
        return f"{self.verdict} ({self.qualifier})" if self.qualifier else self.verdict

    @property
    def measured(self) -> str:
        """The number with its interval.

        Of measurements that disagree the least and the most alone: a value between them is
        nobody's.
        """
        values = [line.value for line in with_numbers(self.lines) if line.value is not None]
        if self.verdict in DISAGREE and values:
            least = format_number(min(values), self.form)
            most = format_number(max(values), self.form)
            return f"{least.partition(' ')[0]} to {most}" if least != most else least
        if self.value is not None and self.low is None:
            return f"{format_number(self.value, self.form)} (single draws: no interval)"
        return format_effect(self.value, self.low, self.high, self.form)


def with_numbers(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that are used for the verdict and have a number."""
    return [line for line in lines if line.counts and line.value is not None]


def join_verdicts(verdicts: Iterable[Verdict]) -> str:
    """Return `reproduced or stronger`, in the order of a growing gain."""
    possible = set(verdicts)
    kinds = [verdict for verdict in DECIDED if verdict in possible]
    return f"anything from {kinds[0]} to {kinds[-1]}" if len(kinds) > 2 else " or ".join(kinds)


def qualify(verdict: Verdict, lines: Sequence[Line], transfers_to_gpu: bool) -> str:
    """Return what restricts a verdict.

    That is what is left open, which sizes say something else, and that it is a CPU's result alone.
    """
    numbers = with_numbers(lines)
    if verdict not in (*DECIDED, *DISAGREE, "undecided") or not numbers:
        return ""
    sizes = group_by_size(lines)
    qualifiers = (
        describe_open(numbers, sizes) if verdict == "undecided" else describe_sizes(verdict, sizes)
    )
    if not transfers_to_gpu and all(line.device == "cpu" for line in numbers):
        qualifiers.append("on a CPU")
    return "; ".join(qualifiers)


def describe_open(numbers: Sequence[Line], sizes: dict[str, list[Line]]) -> list[str]:
    """Return what is left open, or at each of several sizes."""
    if len(sizes) < 2:
        return list(filter(None, [describe_alone(numbers)]))
    texts = []
    for size, lines in sizes.items():
        missing = sum(line.value is None for line in lines)
        # nothing is decided where as many are missing as there are
        alone = "undecided" if 2 * missing >= len(lines) else describe_alone(lines)
        gaps = f", {missing} of {len(lines)} arms missing" if missing else ""
        texts.append(f"{alone} at size {size}{gaps}")
    return texts


def describe_alone(lines: Sequence[Line]) -> str:
    """Return what these lines say alone; of undecided ones, what is left open."""
    alone = summarize([line.verdict for line in lines])
    if alone != "undecided":
        return alone
    return join_verdicts(verdict for line in lines for verdict in (line.left or (line.verdict,)))


def describe_sizes(verdict: Verdict, sizes: dict[str, list[Line]]) -> list[str]:
    """Return which sizes say something else than the verdict."""
    others = {size: describe_spread(lines) for size, lines in sizes.items()}
    texts = [f"{other} at size {size}" for size, other in others.items() if other != verdict]
    if verdict in DISAGREE and len(texts) > 1 and len(set(others.values())) == 1:
        return [f"{next(iter(others.values()))} at every size"]
    return texts


def describe_spread(lines: Sequence[Line]) -> str:
    """Return what these lines say alone; of those that disagree, all that they say."""
    verdicts = [line.verdict for line in lines]
    alone = summarize(verdicts)
    kinds = [verdict for verdict in DECIDED if verdict in verdicts]
    if alone not in DISAGREE or not kinds:
        return alone
    return " and ".join(kinds) if len(kinds) < 3 else join_verdicts(kinds)


def group_by_size(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines that decide, or would if they had a number, of each size that has one."""
    sizes: dict[str, list[Line]] = {}
    for line in lines:
        if line.counts and line.cases:
            sizes.setdefault(Case.from_id(line.cases[0]).size, []).append(line)
    return {size: several for size, several in sizes.items() if with_numbers(several)}


def format_number(value: float, form: str) -> str:
    """Return a number in the form of its measure: `-38.2 %`."""
    return format_effect(value, value, value, form)


def format_effect(value: float | None, low: float | None, high: float | None, form: str) -> str:
    """Return `-38.2 % (-38.9 to -37.5)`, in the form of the measure.

    `-` without a value, and no number without an interval. What prints as one number has no
    brackets.
    """
    if value is None:
        return "-"
    if low is None or high is None:
        return "no interval"
    unit = UNITS.get(form, "")
    null = 1 if form == "change" else 0
    numbers = [100 * (number - null) if unit else number for number in (value, low, high)]
    sign = "+" if form == "change" else ""
    digits = count_digits(form, numbers[0], numbers[2])
    texts = [f"{number:{sign},.{digits}f}" for number in numbers]
    interval = f" ({texts[1]} to {texts[2]})" if len(set(texts)) > 1 else ""
    return f"{texts[0]}{unit}{interval}"


def count_digits(form: str, value: float, high: float) -> int:
    """Return the digits after the point that a number is printed with."""
    if form == "error" and abs(high) < 0.1:
        return 3
    if form in UNITS:
        return 1
    return 0 if form == "count" or abs(value) >= 1000 else 2


def span(lines: Sequence[Line]) -> tuple[float | None, float | None, float | None]:
    """Return the median, the lowest and the highest end; no ends where a line has none."""
    values = [line.value for line in lines if line.value is not None]
    lows = [line.low for line in lines if line.low is not None]
    highs = [line.high for line in lines if line.high is not None]
    middle = median(values) if values else None
    if not values or min(len(lows), len(highs)) < len(lines):
        return middle, None, None
    return middle, min(lows), max(highs)


def as_json(entry: Entry) -> dict[str, Any]:
    """Return the entry for programs.

    `measured`, `low` and `high` are numbers; `lines` has the measurements.
    """
    fields = asdict(entry) | {
        "measured": entry.value,
        "text": entry.measured,
        "remark": entry.remark,
    }
    return fields | {
        "lines": [
            asdict(line) | {"measured": line.value, "text": line.measured} for line in entry.lines
        ]
    }
