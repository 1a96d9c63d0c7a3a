"""The ledger's lines and entries, and how their numbers are printed.

A line is one measurement, an entry one claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framebench.claims.claim import Claim
from framebench.claims.rule import (
    DECIDED,
    DISAGREE,
    UNMET,
    Sign,
    Verdict,
    describe_disagreement,
    summarize,
)
from framebench.strategies.strategy import FRAMEWORKS

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
    measurement: str  # the name alone
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
    set_aside: bool = False  # it would decide if a GPU's lines did not
    other_machine: str = ""  # the machine of its probe, or the GPU, where that is another one
    compiled_with: str = (
        ""  # how the two cases were compiled differently, apart from what is compared
    )
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records
    # and one of them was measured, and has no numbers: repeated it would have none
    was_tried: bool = False
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
        number = format_number(self.value, self.form)
        return f"{number} (one draw: no interval between blocks or processes)"

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
        return " ".join(self.measurement.replace(self.place, "", 1).split())

    @property
    def place(self) -> str:
        """Workload and framework, `unet3d/jax`; empty of another program."""
        found = PLACE.search(self.measurement)
        return found[0] if found else ""

    @property
    def on_other_gpu(self) -> bool:
        """Whether a GPU has measured it, and the row's machine has not."""
        return bool(self.other_machine and self.cases)

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
    also_shown: tuple[str, ...]  # measurements of GPUs and informational ones, in words
    command: str  # what would measure what is missing; empty if nothing is
    records: tuple[str, ...]
    lines: tuple[Line, ...]
    machine: str
    size: str
    protocol: int  # that all was measured under
    place: str = ""  # where the article says it

    @property
    def name(self) -> str:
        """`A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def remark(self) -> str:
        """What stands below a row."""
        return " ".join((*self.reasons, *self.also_shown))

    @property
    def judged(self) -> str:
        """`undecided (confirmed or larger than claimed)`."""
        return f"{self.verdict} ({self.qualifier})" if self.qualifier else self.verdict

    @property
    def measured(self) -> str:
        """The number with its interval, or without one what it is of."""
        return describe_numbers(self.verdict, with_numbers(self.lines))


def with_numbers(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that are used for the verdict and have a number."""
    return [line for line in lines if line.counts and line.value is not None]


def describe_numbers(verdict: Verdict, lines: Sequence[Line]) -> str:
    """Return the number of the lines behind a verdict with its interval.

    Of lines that disagree the least and the most alone: a value between them is nobody's.
    """
    alike = select_alike(verdict, lines)
    if not alike:
        return "-"
    form = alike[0].form
    if verdict in DISAGREE:
        return describe_ends([line for line in lines if line.form == form])
    value, low, high = span(alike)
    if value is not None and low is None:
        return f"{format_number(value, form)} (single draws: no interval)"
    return format_effect(value, low, high, form)


def describe_ends(lines: Sequence[Line]) -> str:
    """Return the least and the greatest number of lines of one form: `-38.2 to +4.0 %`."""
    values = [line.value for line in lines if line.value is not None]
    least = format_number(min(values), lines[0].form)
    most = format_number(max(values), lines[0].form)
    if least == most:
        return least
    return f"{least.partition(' ')[0]} to {most}"  # the unit once


def select_alike(verdict: Verdict, lines: Sequence[Line]) -> list[Line]:
    """Return the lines whose numbers are summed up: those on one scale, with an interval if any.

    Of a decided verdict these are the decided ones: the others are named with their own numbers.
    """
    alike = [line for line in lines if line.form == lines[0].form]
    decided = [line for line in alike if line.verdict in DECIDED]
    if verdict in DECIDED and decided:
        alike = decided
    bounded = [line for line in alike if line.is_bounded]
    return bounded or alike


def join_verdicts(verdicts: Iterable[Verdict]) -> str:
    """Return `confirmed or larger than claimed`, in the order of a growing gain."""
    possible = set(verdicts)
    kinds = [verdict for verdict in DECIDED if verdict in possible]
    if len(kinds) > 2:
        return f"anything from {kinds[0]} to {kinds[-1]}"
    return " or ".join(kinds)


def qualify(verdict: Verdict, lines: Sequence[Line], claim: Claim) -> list[str]:
    """Return what restricts a verdict.

    That is what it means for this claim, what is left open, the sides of a disagreement, which
    devices say something else, and that it is a CPU's result or a plan's alone.
    """
    numbers = with_numbers(lines)
    if verdict not in (*DECIDED, *DISAGREE, "undecided") or not numbers:
        return []
    qualifiers = [claim.means[verdict]] if verdict in claim.means else []
    places = group_by_place(lines)
    if claim.may and verdict == "confirmed":
        qualifiers += describe_part(numbers)
    elif verdict == "undecided":
        qualifiers += describe_open(numbers, places) + describe_set_aside(lines)
    else:
        qualifiers += describe_places(verdict, numbers, places)
    said = "; ".join(qualifiers)
    if all(line.planned for line in numbers) and "planned" not in said:
        qualifiers.append("planned")
    is_of_cpu = all(line.device == "cpu" for line in numbers)
    if is_of_cpu and not claim.transfers_to_gpu and "on a CPU" not in said:
        qualifiers.append("on a CPU")
    return qualifiers


def describe_part(numbers: Sequence[Line]) -> list[str]:
    """Return in how many comparisons a claim that something may be is confirmed, if not in all."""
    confirmed = sum(line.verdict in ("confirmed", "larger than claimed") for line in numbers)
    if confirmed == len(numbers):
        return []
    return [f"in {confirmed} of {len(numbers)} comparisons"]


def describe_set_aside(lines: Sequence[Line]) -> list[str]:
    """Return what a CPU's comparisons say where a GPU's decide."""
    aside = [line for line in lines if line.set_aside and line.value is not None]
    return [f"{describe_spread(aside)} on a CPU, which does not decide"] if aside else []


def describe_open(numbers: Sequence[Line], places: dict[str, list[Line]]) -> list[str]:
    """Return what is left open, or in each of several places."""
    if len(places) < 2:
        alone = describe_alone(numbers)
        return [alone] if alone else []
    texts = []
    for place, lines in places.items():
        missing = sum(line.value is None for line in lines)
        if missing == 0:
            texts.append(f"{describe_alone(lines)} {place}")
            continue
        # nothing is decided where as many are missing as there are
        alone = "undecided" if 2 * missing >= len(lines) else describe_alone(lines)
        texts.append(f"{alone} {place}, {missing} of {len(lines)} comparisons missing")
    return texts


def describe_alone(lines: Sequence[Line]) -> str:
    """Return what these lines say alone; of undecided ones, what is left open."""
    alone = summarize([line.verdict for line in lines])
    if alone != "undecided":
        return alone
    possible: list[Verdict] = []
    for line in lines:
        possible += line.left or (line.verdict,)
    return join_verdicts(possible) or f"single draws, {describe_ends(lines)}"


def describe_places(
    verdict: Verdict, numbers: Sequence[Line], places: dict[str, list[Line]]
) -> list[str]:
    """Return the sides of a disagreement, or which places say something else than the verdict."""
    if verdict in DISAGREE and not places:  # programs, which have names of their own
        return [describe_disagreement((line.measurement, line.verdict) for line in numbers)]
    verdicts = {place: describe_spread(lines) for place, lines in places.items()}
    is_same_everywhere = len(set(verdicts.values())) == 1 and len(places) > 1
    if verdict in DISAGREE and is_same_everywhere:
        return [describe_spread(numbers)]
    return [f"{said} {place}" for place, said in verdicts.items() if said != verdict]


def describe_spread(lines: Sequence[Line]) -> str:
    """Return what these lines say alone; of those that disagree, all that they say."""
    verdicts = [line.verdict for line in lines]
    alone = summarize(verdicts)
    kinds = [verdict for verdict in DECIDED if verdict in verdicts]
    if alone not in DISAGREE or not kinds:
        return alone
    if len(kinds) > 2:
        return join_verdicts(kinds)
    return " and ".join(f"{kind}{mark_planned(kind, lines)}" for kind in kinds)


def mark_planned(verdict: Verdict, lines: Sequence[Line]) -> str:
    """Return ` (planned)` if plans alone say so, beside lines that were measured; else nothing."""
    is_planned = [line.planned for line in lines if line.verdict == verdict]
    return " (planned)" if all(is_planned) and not all(line.planned for line in lines) else ""


def group_by_place(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines that decide, or would if they had a number, of each device that has one.

    A GPU's plans are distinguished from what was measured where all of its lines are plans.
    """
    devices: dict[str, list[Line]] = {}
    for line in lines:
        if line.counts and line.cases:
            devices.setdefault(line.device, []).append(line)
    places = {}
    for device, several in devices.items():
        if not with_numbers(several):
            continue
        place = f"on a {device.upper()}"
        if all(line.planned for line in several):
            place += ", planned"
        places[place] = several
    return places


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
    numbers = [to_unit(number, form) for number in (value, low, high)]
    digits = count_digits(form, numbers[0], numbers[2])
    sign = "+" if form == "change" else ""
    middle, least, most = (f"{number:{sign},.{digits}f}" for number in numbers)
    text = f"{middle}{UNITS.get(form, '')}"
    if middle == least == most:
        return text
    return f"{text} ({least} to {most})"


def to_unit(value: float, form: str) -> float:
    """Return a number in the unit of its form: per cent of change from a ratio."""
    if form == "change":
        return 100 * (value - 1)
    return 100 * value if form in UNITS else value


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
    if not values:
        return None, None, None
    lows = [line.low for line in lines if line.low is not None]
    highs = [line.high for line in lines if line.high is not None]
    if len(lows) < len(lines) or len(highs) < len(lines):
        return median(values), None, None
    return median(values), min(lows), max(highs)


def as_json(entry: Entry) -> dict[str, Any]:
    """Return the entry for programs.

    `measured`, `low` and `high` are numbers; `lines` has the measurements.
    """
    fields = asdict(entry)
    fields["measured"] = entry.value
    fields["text"] = entry.measured
    fields["remark"] = entry.remark
    for line, fields_of_line in zip(entry.lines, fields["lines"], strict=True):
        fields_of_line["measured"] = line.value
        fields_of_line["text"] = line.measured
    return fields
