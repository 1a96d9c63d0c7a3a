"""What the ledger says of a claim in words: the number, brackets behind the verdict, remarks, advice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import median

from framebench.claims.claim import Advice, Claim
from framebench.claims.lines import Line
from framebench.claims.numbers import format_effect, format_range
from framebench.claims.rule import (
    DECIDED,
    DISAGREE,
    DOES_NOT_RUN,
    MEASURED,
    NOT_MEASURED,
    UNMET,
    Verdict,
)

NO_ADVICE = "None: the comparisons support none."
FEW = 4  # lines that are named in brackets; more are counted


def with_numbers(lines: Iterable[Line]) -> list[Line]:
    """Return the lines that are used for the verdict and have a number."""
    return [line for line in lines if line.counts and line.value is not None]


def group(lines: Iterable[Line], key: Callable[[Line], Hashable]) -> list[list[Line]]:
    """Return the lines with those of one key together, in the order in which keys appear."""
    groups: dict[Hashable, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return list(groups.values())


def list_values(lines: Iterable[Line]) -> list[float]:
    """Return the numbers of lines, the smallest first."""
    return sorted(line.value for line in lines if line.value is not None)


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


def span(lines: Sequence[Line]) -> tuple[float | None, float | None, float | None]:
    """Return the median, the lowest and the highest end; no ends where a line has none."""
    values = list_values(lines)
    if not values:
        return None, None, None
    lows = [line.low for line in lines if line.low is not None]
    highs = [line.high for line in lines if line.high is not None]
    if len(lows) < len(lines):
        return median(values), None, None
    return median(values), min(lows), max(highs)


def describe_numbers(verdict: Verdict, lines: Sequence[Line]) -> str:
    """Return the number of the lines behind a verdict with its interval.

    Of lines that disagree, or have no intervals, the least and the most alone: a value between them
    is nobody's.
    """
    alike = select_alike(verdict, lines)
    if not alike:
        return "-"
    form = alike[0].form
    value, low, high = span(alike)
    if verdict in DISAGREE:
        return format_range(list_values(line for line in lines if line.form == form), form)
    if len(alike) > 1 and low is None:
        return f"{format_range(list_values(alike), form)} (single draws: no interval)"
    return format_effect(value, low, high, form)


def qualify(verdict: Verdict, lines: Sequence[Line], claim: Claim) -> str:
    """Return what restricts a verdict, for the brackets behind it.

    That is what it means for this claim, what the comparisons on each device say where not all say
    the same, and that it is a CPU's result or a plan's alone.
    """
    numbers = with_numbers(lines)
    if verdict == UNMET:
        return shorten_unmet(claim, lines)
    if verdict not in MEASURED or not numbers:
        return ""
    parts = []
    meaning = claim.means.get("any") or claim.means.get(verdict)
    if meaning and verdict != "undecided":
        parts.append(meaning)
    counted = [line for line in lines if line.counts]
    is_of_cpu = all(line.device == "cpu" for line in numbers)
    if len({line.verdict for line in counted}) > 1 or verdict == "undecided":
        for several in group(counted, name_device):
            if with_numbers(several):
                parts.append(f"{count_verdicts(several, claim.means)}{name_device(several[0])}")
    elif all(line.planned for line in numbers):
        parts.append("planned")
    elif is_of_cpu and not claim.transfers_to_gpu:
        parts.append("on a CPU")
    aside = [line for line in lines if line.set_aside and line.value is not None]
    if verdict == "undecided" and aside:
        parts.append(f"{count_verdicts(aside, claim.means)} on a CPU, which does not decide")
    return "; ".join(parts)


def name_device(line: Line) -> str:
    """Return ` on a CPU`, ` on a GPU` or ` planned for a GPU`; empty of a program.

    A program's comparisons have names of their own.
    """
    if not line.cases:
        return ""
    return f" {'planned for' if line.planned else 'on'} a {line.device.upper()}"


def count_verdicts(lines: Sequence[Line], means: Mapping[str, str]) -> str:
    """Return `7 confirmed, 1 opposite`, or of few lines with names of their own who says what."""
    names = [line.label for line in lines]
    has_names = len(set(names)) == len(lines) and all(names) and len(lines) <= FEW
    texts = []
    for several in group(sort_by_gain(lines), name_verdict):
        said = means.get(several[0].verdict) or describe_verdict(several)
        if has_names and len(lines) > 1:
            texts.append(f"{said}: {', '.join(line.label for line in several)}")
        else:
            texts.append(f"{len(several)} {said}")
    return "; ".join(texts) if has_names and len(lines) > 1 else ", ".join(texts)


def name_verdict(line: Line) -> tuple[str, ...]:
    """Return the verdict of a line; of an undecided one, with what it leaves open."""
    return (line.verdict, *line.left) if line.verdict == "undecided" else (line.verdict,)


def sort_by_gain(lines: Iterable[Line]) -> list[Line]:
    """Return the lines with the largest gain first, and last what is not decided."""
    order = (*reversed(DECIDED), "undecided")
    return sorted(
        lines, key=lambda line: order.index(line.verdict) if line.verdict in order else len(order)
    )


def describe_verdict(lines: Sequence[Line]) -> str:
    """Return what lines of one verdict say; of undecided ones, what they leave open."""
    verdict, left = lines[0].verdict, lines[0].left
    if verdict == NOT_MEASURED:
        return "missing"
    if verdict != "undecided":
        return verdict
    if not left:
        return f"single draws, {format_range(list_values(lines), lines[0].form)},"
    if len(left) > 2:
        return f"anything from {left[0]} to {left[-1]}"
    return f"undecided ({' or '.join(left)})"


def shorten_unmet(claim: Claim, lines: Sequence[Line]) -> str:
    """Return in a few words why a claim cannot be tested here."""
    reasons = [claim.needs.lacking]
    if not claim.needs.lacking:
        reasons = [line.remark for line in lines if line.decides and line.verdict == UNMET]
    needs = []
    for reason in reasons:
        needs += [part.partition(":")[0] for part in reason.split("; ")]
    return "; ".join(dict.fromkeys(needs))  # each once


def make_reasons(claim: Claim, lines: Sequence[Line], looked_up: str = "") -> tuple[str, ...]:
    """Return what a row's cells cannot say: each comparison's number, and circumstances.

    `looked_up` is the machine that looked names up, if it is another one.
    """
    counting = [line for line in lines if line.counts]
    reasons = [
        f"By definition: {claim.definition}" if claim.definition else "",
        claim.needs.lacking,
        claim.note,
        list_deciding(counting),
        describe_skipped(lines),
        describe_missing(counting),
    ]
    reasons += dict.fromkeys(line.remark for line in counting if line.remark)  # each once
    for several in group(lines, lambda line: line.compiled_with):
        names = [line.name for line in several if line.value is not None]
        if several[0].compiled_with and names:
            reasons.append(f"{several[0].compiled_with}: {', '.join(names)}")
    machines = dict.fromkeys([looked_up] if looked_up else [])  # each once, in order
    machines |= dict.fromkeys(line.other_machine for line in lines if not line.cases)
    machines.pop("", None)
    if machines:
        reasons.append(f"Programs ran on {', '.join(machines)}")
    return end_sentences(reasons)


def end_sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not empty, each with a full stop."""
    return tuple(text if text.endswith(".") else f"{text}." for text in texts if text)


def list_deciding(lines: Sequence[Line]) -> str:
    """Return the number and the verdict of each line that decides, where there are several."""
    numbers = with_numbers(lines)
    if len(numbers) < 2 and not any(line.on_other_gpu for line in numbers):
        return ""
    texts = []
    for several in group(sort_by_gain(numbers), lambda line: line.verdict):
        named = [f"{line.name} {line.number}" for line in several]
        texts.append(f"{several[0].verdict.capitalize()}: {'; '.join(named)}")
    return ". ".join(texts)


def describe_skipped(lines: Sequence[Line]) -> str:
    """Return `3 comparisons skipped: not measured on a GPU yet; here: +6.4 to +98.1 %`."""
    skipped = [line for line in lines if line.decides and line.verdict == UNMET]
    texts = []
    for several in group(skipped, lambda line: (line.remark, line.form)):
        comparisons = "comparison" if len(several) == 1 else "comparisons"
        text = f"{len(several)} {comparisons} skipped: {several[0].remark}"
        values = list_values(several)
        if values:
            text += f"; here: {format_range(values, several[0].form)}"
        texts.append(text)
    return ". ".join(texts)


def describe_missing(lines: Sequence[Line]) -> str:
    """Return how many measurements have no number, and the cases that nobody has tried."""
    absent = [line for line in lines if line.value is None]
    if not absent:
        return ""
    text = f"{len(absent)} of {len(lines)} comparisons have no number"
    untried = dict.fromkeys(case for line in absent for case in line.missing)  # each once
    return f"{text}: no records of {', '.join(untried)}" if untried else text


def make_informational(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the informational numbers, and the errors of listings.

    Those that differ in workload and framework alone are given by their range.
    """
    shown = [line for line in lines if not line.decides]
    numbers = [line for line in shown if line.value is not None]
    texts = []
    for several in group(
        numbers, lambda line: (line.label, line.on_other_gpu, line.device, line.form, line.metric)
    ):
        first = several[0]
        if len(several) == 1:
            texts.append(f"{first.name}: {first.number}")
            continue
        places = dict.fromkeys(line.place for line in several)  # each once
        where = f", {first.other_machine}" if first.on_other_gpu else ""
        values = format_range(list_values(several), first.form)
        label = first.label or first.metric
        texts.append(f"{label}, {', '.join(places)}{where}: {values}")
    texts += [line.remark for line in shown if line.verdict == DOES_NOT_RUN]
    return end_sentences([f"Also shown: {'; '.join(texts)}"] if texts else [])


def choose_advice(claim: Claim, lines: Sequence[Line]) -> str:
    """Return the first advice of the claim that its measurements support, with what it rests on."""
    for advice in claim.advice:
        if advice.sign is None:
            return advice.text
        supporting = []
        for line in lines:
            is_named = advice.measurements in line.name if advice.measurements else line.decides
            if is_named and line.verdict != UNMET:
                supporting.append(line)
        if is_supported(advice, supporting):
            return describe_advice(advice, supporting)
    return NO_ADVICE


def is_supported(advice: Advice, lines: Sequence[Line]) -> bool:
    """Return whether the measurements say what the advice says.

    No number may be missing, none may say otherwise, and most must say it for certain.
    """
    signs = [line.sign for line in lines]
    if any(line.value is None for line in lines) or not set(signs) <= {advice.sign, "unclear"}:
        return False
    return 2 * sum(sign == advice.sign for sign in signs) > len(signs)


def describe_advice(advice: Advice, lines: Sequence[Line]) -> str:
    """Return the text of advice with the numbers that it rests on, the undecided ones too."""
    form = lines[0].form
    values = list_values(lines)
    if advice.sign == "less":  # the one nearest to no effect first
        values.reverse()
    text = advice.text.format(
        measured=format_effect(*span(lines), form),
        range=format_range(values, form),
    )
    agreeing = sum(line.sign == advice.sign for line in lines)
    comparisons = "comparison" if len(lines) == 1 else "comparisons"
    return f"{text} ({agreeing} of {len(lines)} {comparisons}.)"
