"""What the ledger says in words: numbers, what restricts a verdict, remarks, and advice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
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
    """Return the lines whose numbers are summed up behind a verdict.

    All have the form of the first line. For a decided verdict they are the lines that have this
    verdict; the others are named with their own numbers. Where lines disagree they are all lines,
    and otherwise only those with an interval, or all if no line has an interval.
    """
    # a median of per cents and of counts would be nothing
    alike = [line for line in lines if line.form == lines[0].form]
    if verdict in DISAGREE:
        return alike
    decided = [line for line in alike if line.verdict in DECIDED]
    if verdict in DECIDED and decided:
        agreeing = [line for line in decided if line.verdict == verdict]
        alike = agreeing or decided
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
    """Return the median of the lines behind a verdict with its interval; `-` without a line.

    Where the lines disagree, have no interval or are of several metrics, a median would mean
    nothing: the smallest and the largest number are returned instead.
    """
    return sum_up(verdict, select_alike(verdict, lines))


def sum_up(verdict: Verdict, alike: Sequence[Line]) -> str:
    """Return the median of lines of one form with its interval, as `describe_numbers` does."""
    if not alike:
        return "-"
    form = alike[0].form
    value, low, high = span(alike)
    if verdict in DISAGREE or len({line.metric for line in alike}) > 1:
        return format_range(list_values(alike), form)
    if len(alike) > 1 and low is None:
        return f"{format_range(list_values(alike), form)} (single draws: no interval)"
    return format_effect(value, low, high, form)


def qualify(verdict: Verdict, lines: Sequence[Line], claim: Claim) -> str:
    """Return what restricts a verdict, for the brackets behind it.

    If all comparisons agree, it is what the verdict means for this claim, and on which devices it
    was measured. Otherwise it is the verdicts on each device with their counts.
    """
    if verdict == UNMET:
        return shorten_unmet(claim, lines)
    counted = [line for line in lines if line.counts]
    numbers = with_numbers(lines)
    if verdict not in MEASURED or not numbers:
        return ""
    parts = [claim.means.get("any", "")]
    if verdict == "undecided" or len({line.verdict for line in counted}) > 1:
        parts += describe_devices(counted, claim)
        aside = [line for line in lines if line.set_aside and line.verdict in MEASURED]
        if verdict == "undecided":  # a reader wonders why, where a CPU's numbers are plain
            parts += [f"{text}, which do not decide" for text in describe_devices(aside, claim)]
    else:
        parts.append(claim.means.get(verdict, ""))
        parts.append(" and ".join(sorted(set(map(name_device, numbers)))))
    return "; ".join(filter(None, parts))


def name_device(line: Line) -> str:
    """Return `on a CPU`, `on a GPU` or `planned for a GPU`."""
    if line.planned:
        return "planned for a GPU"
    return f"on a {line.device.upper()}"


def describe_devices(lines: Sequence[Line], claim: Claim) -> list[str]:
    """Return `on a CPU: 7 confirmed, 1 opposite`, for each device that has a number.

    A few lines whose labels differ are named instead of counted.
    """
    texts = []
    for several in group(lines, name_device):
        if all(line.value is None for line in several):
            continue
        by_verdict = group(sort_by_gain(several), name_verdict)
        labels = {line.label for line in several}
        is_named = len(by_verdict) > 1 and len(labels) == len(several) <= FEW and all(labels)
        verdicts = [summarize_alike(alike, claim, is_named) for alike in by_verdict]
        texts.append(f"{name_device(several[0])}: {', '.join(verdicts)}")
    return texts


def summarize_alike(lines: Sequence[Line], claim: Claim, is_named: bool) -> str:
    """Return the verdict of lines that have the same one, and which or how many they are."""
    verdict = describe_verdict(lines, claim)
    if is_named:
        return f"{verdict} ({', '.join(line.label for line in lines)})"
    if lines[0].verdict == "smaller than claimed":  # by how much is what a reader asks next
        verdict += f" ({format_range(list_values(lines), lines[0].form)})"
    return f"{len(lines)} {verdict}"


def sort_by_gain(lines: Iterable[Line]) -> list[Line]:
    """Return the lines by verdict, the largest gain first, and last what is not decided."""
    ranked = []
    for verdict in (*reversed(DECIDED), "undecided", DOES_NOT_RUN, NOT_MEASURED):
        ranked += [line for line in lines if line.verdict == verdict]
    return ranked


def name_verdict(line: Line) -> tuple[str, ...]:
    """Return the verdict of a line; of an undecided one, with what it leaves open."""
    if line.verdict == "undecided":
        return (line.verdict, *line.left)
    return (line.verdict,)


def describe_verdict(lines: Sequence[Line], claim: Claim) -> str:
    """Return what lines of one verdict say; of undecided ones, what they leave open."""
    verdict, left = lines[0].verdict, lines[0].left
    if verdict == NOT_MEASURED:
        return "missing"
    if verdict != "undecided":
        return claim.means.get(verdict, verdict)
    if not left:  # of fewer blocks than an interval takes
        return f"without an interval ({format_range(list_values(lines), lines[0].form)})"
    if len(left) > 2:
        return f"open (anything from {left[0]} to {left[-1]})"
    return f"open ({' or '.join(left)})"


def shorten_unmet(claim: Claim, lines: Sequence[Line]) -> str:
    """Return in a few words why a claim cannot be tested here."""
    if claim.needs.lacking:
        return claim.needs.lacking.partition(":")[0]
    reasons: dict[str, None] = {}  # as keys: each once, in order
    for line in lines:
        if line.decides and line.verdict == UNMET:
            reasons[line.remark.partition(":")[0]] = None
    return "; ".join(reasons)


def make_reasons(claim: Claim, lines: Sequence[Line], names_machine: str = "") -> tuple[str, ...]:
    """Return the sentences below a row: each comparison's number, what is missing, and notes.

    `names_machine` is the machine that looked names up, if it is another one.
    """
    counting = [line for line in lines if line.counts]
    reasons = [claim.needs.lacking, claim.note]
    if claim.definition:
        reasons.insert(0, f"By definition: {claim.definition}")
    reasons += [list_deciding(counting), describe_skipped(lines), describe_missing(counting)]
    remarks: dict[str, None] = {}  # as keys: many comparisons may have the same
    for line in counting:
        remarks[line.remark] = None
    reasons += remarks
    machines = {names_machine: None}  # as keys: each once, in order
    for line in lines:
        if not line.cases:  # a line with cases has its machine in its name
            machines[line.other_machine] = None
    named = ", ".join(filter(None, machines))
    if named:
        reasons.append(f"Programs ran on {named}")
    return end_sentences(reasons)


def end_sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not empty, each with a full stop."""
    return tuple(f"{text.removesuffix('.')}." for text in texts if text)


def list_deciding(lines: Sequence[Line]) -> str:
    """Return the number and the verdict of each line that decides, where there are several."""
    numbers = with_numbers(lines)
    if len(numbers) < 2 and not any(line.on_other_gpu for line in numbers):
        return ""
    texts = []
    for several in group(sort_by_gain(numbers), attrgetter("verdict")):
        named = "; ".join(f"{line.name} {line.number}" for line in several)
        texts.append(f"{several[0].verdict.capitalize()}: {named}")
    return ". ".join(texts)


def describe_skipped(lines: Sequence[Line]) -> str:
    """Return `3 skipped: not measured on a GPU yet; here: +6.4 to +98.1 %`."""
    skipped = [line for line in lines if line.decides and line.verdict == UNMET]
    texts = []
    for several in group(skipped, attrgetter("remark", "form")):
        text = f"{len(several)} skipped: {several[0].remark}"
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
    if untried:
        text += f": no records of {', '.join(untried)}"
    return text


def make_informational(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the informational numbers and the errors of listings, as a sentence, or nothing.

    Lines that differ only in workload and framework are given by their range.
    """
    shown = [line for line in lines if not line.decides]
    numbers = [line for line in shown if line.value is not None]
    # the label is the name without workload and framework
    alike = attrgetter("label", "other_machine", "device", "form", "metric")
    texts = [describe_alike(several) for several in group(numbers, alike)]
    texts += [line.remark for line in shown if line.verdict == DOES_NOT_RUN]
    if not texts:
        return ()
    return end_sentences([f"Also shown: {'; '.join(texts)}"])


def describe_alike(lines: Sequence[Line]) -> str:
    """Return `time, resnet50/torch, unet3d/jax: +6.4 to +98.1 %`, or the number of one line."""
    first = lines[0]
    if len(lines) == 1:
        return f"{first.name}: {first.number}"
    names = {first.label or first.metric: None}  # as keys: each once, in order
    for line in lines:
        names[line.place] = None
    names[first.other_machine] = None
    return f"{', '.join(filter(None, names))}: {format_range(list_values(lines), first.form)}"


def choose_advice(claim: Claim, lines: Sequence[Line]) -> str:
    """Return the first advice of the claim that its measurements support, with their numbers."""
    for advice in claim.advice:
        if advice.sign is None:
            return advice.text
        supporting = []
        for line in lines:
            is_named = advice.measurements and advice.measurements in line.name
            is_deciding = not advice.measurements and line.decides
            if (is_named or is_deciding) and line.verdict != UNMET:
                supporting.append(line)
        if is_supported(advice, supporting):
            return describe_advice(advice, supporting)
    return NO_ADVICE


def is_supported(advice: Advice, lines: Sequence[Line]) -> bool:
    """Return whether the measurements say what the advice says.

    No number may be missing, none may say otherwise, and most must say it for certain.
    """
    # an unclear sign does not contradict: its interval is wide
    signs = [line.sign for line in lines]
    if any(line.value is None for line in lines) or not set(signs) <= {advice.sign, "unclear"}:
        return False
    return 2 * sum(sign == advice.sign for sign in signs) > len(signs)


def describe_advice(advice: Advice, lines: Sequence[Line]) -> str:
    """Return the text of advice with the numbers that it rests on, the undecided ones too."""
    form = lines[0].form
    values = list_values(lines)
    if advice.sign == "less":  # the smallest effect first, which a reader can count on
        values.reverse()
    text = advice.text.format(
        measured=format_effect(*span(lines), form), range=format_range(values, form)
    )
    agreeing = sum(line.sign == advice.sign for line in lines)
    return f"{text} ({agreeing} of {len(lines)} compared.)"
