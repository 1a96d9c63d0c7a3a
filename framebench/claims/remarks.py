"""What stands below a row: who disagrees, what is not met or missing, what stands beside, what cards have measured."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.claims.claim import Claim
from framebench.claims.entries import Line, either
from framebench.claims.needs import Conditions
from framebench.claims.rule import DOES_NOT_RUN, UNMET, sides


def remarks(claim: Claim, lines: Sequence[Line], looked_up: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the numbers cannot say, and the numbers that decide nothing: no arm is withheld. Second: what a list of
    arms says too."""
    deciding = [one for one in lines if one.decides]
    met = [one for one in deciding if one.verdict != UNMET]
    printed = [one for one in lines if one.decides or one.value is not None or one.verdict == DOES_NOT_RUN]
    disagree = sides((one.name, one.verdict) for one in deciding)
    why = "; ".join(dict.fromkeys(one.remark for one in met if one.remark))
    proof = claim.definition and f"By definition: {claim.definition}"
    gaps = ("; ".join(filter(None, (claim.needs.lacking(), _unmet(claim, deciding)))), _missing(met), why)
    own = _sentences(disagree, proof, _undecided(met), *gaps, claim.note, *_circumstances(printed, looked_up))
    return own, _sentences(_on_cards(met), beside([one for one in lines if not one.decides]))


def _sentences(*parts: str) -> tuple[str, ...]:
    return tuple(part if part.endswith(".") else f"{part}." for part in parts if part)


def _missing(met: Sequence[Line]) -> str:
    """How many arms have no number, and the cases that nobody has tried."""
    absent = [one for one in met if one.value is None]
    untried = dict.fromkeys(case for one in absent if not one.tried for case in one.missing)
    told = f": no records of {', '.join(untried)}" if untried else ""
    return f"{len(absent)} of {len(met)} arms have no number{told}" if absent else ""


def _on_cards(met: Sequence[Line]) -> str:
    """What cards have measured of the arms that decide: in their names is which."""
    told = [f"{one.name}: {one.number}, {one.verdict}" for one in met if one.on_a_card]
    return f"On a card: {'; '.join(told)}" if told else ""


def beside(lines: Sequence[Line]) -> str:
    """Arms that decide nothing; those that differ in workload and framework alone by their range. Of a listing the error."""
    kinds: dict[tuple[str, ...], list[Line]] = {}
    for one in (one for one in lines if one.value is not None):
        kinds.setdefault((one.label, one.elsewhere, one.form, one.metric), []).append(one)
    told = [*map(_together, kinds.values()), *(one.remark for one in lines if one.verdict == DOES_NOT_RUN)]
    return f"Beside: {'; '.join(told)}" if told else ""


def _together(lines: Sequence[Line]) -> str:
    """`time, resnet50 and unet3d: +6.4 % to +98.1 % (4 arms)`, of one arm with its interval."""
    if len(lines) == 1:
        return f"{lines[0].name}: {lines[0].number}"
    ranked = sorted(lines, key=lambda one: one.value or 0.0)
    about = lines[0].label or lines[0].metric
    places = ", ".join(dict.fromkeys([about, *(one.place for one in lines if one.place)]))
    ends = " to ".join(dict.fromkeys((ranked[0].figure, ranked[-1].figure)))
    return f"{places}{_of_card(lines[0])}: {ends}{_without_interval(lines)}"


def _of_card(one: Line) -> str:
    return f", {one.elsewhere}" if one.on_a_card else ""


def _without_interval(lines: Sequence[Line]) -> str:
    return " (single draws among them, without interval)" if any(not one.bounded for one in lines) else ""


def _undecided(met: Sequence[Line]) -> str:
    """Which arms are, and what their intervals leave open."""
    arms = [one for one in met if one.value is not None and one.verdict == "undecided"]
    told = [f"{one.name}, {either(one.left)}" if one.left else one.name for one in arms]
    return f"Undecided: {'; '.join(told)}" if arms and len(arms) < len(met) else ""


def _circumstances(lines: Sequence[Line], looked_up: str) -> list[str]:
    """What is not the same in both cases of an arm, and whose probes these are."""
    options: dict[str, list[str]] = {}
    for one in lines:
        if one.unlike:
            options.setdefault(one.unlike, []).append(one.name)
    told = [f"{unlike}: {', '.join(names)}" for unlike, names in options.items()]
    return [*told, *_tried(lines, looked_up)]


def _tried(lines: Sequence[Line], looked_up: str) -> list[str]:
    """On which other machine probes ran; which, where the row has cases of its own machine too."""
    machines: dict[str, list[str]] = {looked_up: []} if looked_up else {}
    for one in lines:
        if one.elsewhere and not one.on_a_card:
            machines.setdefault(one.elsewhere, []).append(one.name)
    mixed = any(one.cases for one in lines) and not looked_up
    return [f"Tried on {machine}{': ' + ', '.join(names) if mixed else ''}" for machine, names in machines.items()]


def _unmet(claim: Claim, deciding: Sequence[Line]) -> str:
    """What is not as the claim needs it, with the number of arms that do not decide, and what they are here."""
    if not claim.arms:
        return claim.needs.unmet(Conditions())
    barred = [one for one in deciding if one.verdict == UNMET]
    kinds = dict.fromkeys((one.remark, one.form) for one in barred)
    return ". ".join(_barred([one for one in barred if (one.remark, one.form) == kind]) for kind in kinds)


def _barred(lines: Sequence[Line]) -> str:
    """`3 arms decide nothing: needs a GPU; here they are +6.4 % to +98.1 %`."""
    numbers = [one for one in lines if one.value is not None]
    figures = dict.fromkeys(one.figure for one in sorted(numbers, key=lambda one: one.value or 0.0))
    told = f"; here: {' to '.join(dict.fromkeys([*list(figures)[:1], *list(figures)[-1:]]))}" if figures else ""
    told += _without_interval(numbers)
    return f"{len(lines)} {'arms decide' if len(lines) > 1 else 'arm decides'} nothing: {lines[0].remark}{told}"
