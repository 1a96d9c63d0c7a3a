"""What the ledger says in words: numbers, what restricts a verdict, remarks, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case
from framebench.suite.sequences import drop_duplicates, group_by

NO_ADVICE = "None: the comparisons support none."
MOST_LINES_NAMED = 4  # in brackets; more are counted


def select_numbered(lines: Iterable[Line]) -> list[Line]:
    """Return the lines that are used for the verdict and have a number."""
    return [line for line in lines if line.counts and line.value is not None]


def list_values(lines: Iterable[Line]) -> list[float]:
    """Return the numbers of lines, the smallest first."""
    return sorted(line.value for line in lines if line.value is not None)


def select_summarized(verdict: Verdict, lines: Sequence[Line]) -> list[Line]:
    """Return the lines that the number behind a verdict summarizes, such as by their median.

    Only lines in the first line's form count. Where they disagree, all of them are returned.
    Otherwise, for a decided verdict, the lines with this verdict are chosen, or else all decided
    ones. If any of the chosen lines have an interval, only those are returned.
    """
    # per cents and counts have no common median
    summarized = [line for line in lines if line.form == lines[0].form]
    if verdict in DISAGREE:
        return summarized
    decided = [line for line in summarized if line.verdict in DECIDED]
    if verdict in DECIDED and decided:
        agreeing = [line for line in decided if line.verdict == verdict]
        summarized = agreeing or decided
    bounded = [line for line in summarized if line.is_bounded]
    return bounded or summarized


def compute_span(lines: Sequence[Line]) -> tuple[float | None, float | None, float | None]:
    """Return the median of the numbers, and the lowest and highest end of their intervals.

    All are None without a number, and the ends are None if any line has no interval.
    """
    values = list_values(lines)
    if not values:
        return None, None, None
    lows = [line.low for line in lines if line.low is not None]
    highs = [line.high for line in lines if line.high is not None]
    if len(lows) < len(lines):
        return median(values), None, None
    return median(values), min(lows), max(highs)


def summarize_numbers(verdict: Verdict, lines: Sequence[Line]) -> str:
    """Return the median of the lines behind a verdict with its interval; `-` without a line.

    `select_summarized` has selected the lines. Where they disagree, have no interval or are of
    several metrics, a median would mean nothing: the smallest and the largest number are returned
    instead.
    """
    if not lines:
        return "-"
    form = lines[0].form
    value, low, high = compute_span(lines)
    if verdict in DISAGREE or len({line.metric for line in lines}) > 1:
        return format_range(list_values(lines), form)
    if len(lines) > 1 and low is None:
        return f"{format_range(list_values(lines), form)} (single draws: no interval)"
    return format_effect(value, low, high, form)


def qualify(verdict: Verdict, lines: Sequence[Line], claim: Claim) -> str:
    """Return the text in brackets behind a verdict, or "".

    If all comparisons agree, it is what the verdict means for this claim, and on which devices it
    was measured. Otherwise it is the verdicts on each device with their counts.
    """
    if verdict == UNMET:
        return shorten_unmet(claim, lines)
    counted = [line for line in lines if line.counts]
    numbered = select_numbered(lines)
    if verdict not in MEASURED or not numbered:
        return ""
    clauses = [claim.means.get("any", "")]
    verdicts = {line.verdict for line in counted}
    if verdict == "undecided":
        clauses += describe_devices(counted, claim)
        # a reader would wonder why a CPU's plain numbers do not settle it
        set_aside = [line for line in lines if line.set_aside and line.verdict in MEASURED]
        for text in describe_devices(set_aside, claim):
            clauses.append(f"{text}, which do not decide")
    elif len(verdicts) > 1:
        clauses += describe_devices(counted, claim)
    else:
        devices = {name_device(line) for line in numbered}
        clauses += [claim.means.get(verdict, ""), " and ".join(sorted(devices))]
    return "; ".join(clause for clause in clauses if clause)


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
    for device, device_lines in group_by(lines, name_device).items():
        if all(line.value is None for line in device_lines):
            continue
        lines_by_verdict = group_by(sort_by_gain(device_lines), get_verdict_key)
        labels = {line.label for line in device_lines}
        has_unique_labels = all(labels) and len(labels) == len(device_lines)
        is_few = len(labels) <= MOST_LINES_NAMED
        are_named = has_unique_labels and is_few and len(lines_by_verdict) > 1
        verdicts = []
        for verdict_lines in lines_by_verdict.values():
            verdicts.append(describe_verdict_lines(verdict_lines, claim, are_named))
        texts.append(f"{device}: {', '.join(verdicts)}")
    return texts


def describe_verdict_lines(lines: Sequence[Line], claim: Claim, are_named: bool) -> str:
    """Return the verdict of lines that have the same one, with their labels or their number."""
    verdict = describe_verdict(lines, claim)
    if are_named:
        return f"{verdict} ({', '.join(line.label for line in lines)})"
    if lines[0].verdict == "smaller than claimed":  # by how much is what a reader asks next
        verdict += f" ({format_range(list_values(lines), lines[0].form)})"
    return f"{len(lines)} {verdict}"


def sort_by_gain(lines: Sequence[Line]) -> list[Line]:
    """Return the lines by verdict, the largest gain first and undecided ones last."""
    ranked = []
    for verdict in (*reversed(DECIDED), "undecided", DOES_NOT_RUN, NOT_MEASURED):
        ranked += [line for line in lines if line.verdict == verdict]
    return ranked


def get_verdict_key(line: Line) -> tuple[str, ...]:
    """Return the verdict of a line; of an undecided one, also the verdicts that are open."""
    if line.verdict == "undecided":
        return (line.verdict, *line.left)
    return (line.verdict,)


def describe_verdict(lines: Sequence[Line], claim: Claim) -> str:
    """Return the words for the verdict of lines that have the same one."""
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
        return drop_detail(claim.needs.lacking)
    reasons = []
    frameworks = set()
    for line in lines:
        if line.decides and line.verdict == UNMET:
            reasons.append(drop_detail(line.remark))
            frameworks |= {Case.from_id(case).framework for case in line.cases}
    text = "; ".join(drop_duplicates(reasons))
    if claim.needs.size and len(frameworks) == 1:
        # another framework's numbers of this size may be shown as well
        return f"{text} in {TITLES[frameworks.pop()]}"
    return text


def drop_detail(reason: str) -> str:
    """Return a reason up to its colon: `needs full size` of `needs full size: this is cpu`."""
    return reason.partition(":")[0]


def make_reasons(claim: Claim, lines: Sequence[Line], names_machine: str) -> tuple[str, ...]:
    """Return the sentences below a row: each comparison's number, what is missing, and notes.

    `names_machine` is the machine that looked names up if it is another one, or "".
    """
    counted = [line for line in lines if line.counts]
    reasons = []
    if claim.definition:
        reasons.append(f"By definition: {claim.definition}")
    reasons += [claim.needs.lacking, claim.note]
    reasons += [list_deciding(counted), describe_skipped(lines), describe_missing(counted)]
    # many comparisons may have the same remark
    reasons += drop_duplicates(line.remark for line in counted)
    machines = [names_machine]
    # a line with cases has its machine in its name
    machines += [line.other_machine for line in lines if not line.cases]
    other_machines = ", ".join(name for name in drop_duplicates(machines) if name)
    if other_machines:
        reasons.append(f"The programs of this claim ran on {other_machines}")
    return end_sentences(reasons)


def end_sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not empty, each with a full stop."""
    return tuple(f"{text.removesuffix('.')}." for text in texts if text)


def list_deciding(lines: Sequence[Line]) -> str:
    """Return the number and the verdict of each line that decides, if there are several."""
    numbered = select_numbered(lines)
    if len(numbered) < 2 and not any(line.on_other_gpu for line in numbered):
        return ""
    lines_by_verdict = group_by(sort_by_gain(numbered), lambda line: line.verdict)
    texts = []
    for verdict, verdict_lines in lines_by_verdict.items():
        named = "; ".join(f"{line.name} {line.number}" for line in verdict_lines)
        texts.append(f"{verdict.capitalize()}: {named}")
    return ". ".join(texts)


def describe_skipped(lines: Sequence[Line]) -> str:
    """Return `3 skipped: not measured on a GPU yet; here: +6.4 to +98.1 %`."""
    skipped = [line for line in lines if line.decides and line.verdict == UNMET]
    by_remark = group_by(skipped, lambda line: (line.remark, line.form))
    texts = []
    for (remark, form), remark_lines in by_remark.items():
        text = f"{len(remark_lines)} skipped: {remark}"
        values = list_values(remark_lines)
        if values:
            text += f"; here: {format_range(values, form)}"
        texts.append(text)
    return ". ".join(texts)


def describe_missing(lines: Sequence[Line]) -> str:
    """Return how many measurements have no number, and the cases without any record."""
    without_number = [line for line in lines if line.value is None]
    if not without_number:
        return ""
    text = f"{len(without_number)} of {len(lines)} comparisons have no number"
    missing_cases: list[str] = []
    for line in without_number:
        missing_cases += line.missing
    if missing_cases:
        text += f": no records of {', '.join(drop_duplicates(missing_cases))}"
    return text


def make_informational(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the informational numbers and the errors of listings, as a sentence, or nothing.

    Lines that differ only in workload and framework are given by their range.
    """
    shown = [line for line in lines if not line.decides]
    numbered = [line for line in shown if line.value is not None]
    # the label is the name without workload and framework
    get_kind = attrgetter("label", "other_machine", "device", "form", "metric")
    texts = []
    for lines_of_kind in group_by(numbered, get_kind).values():
        texts.append(describe_informational_lines(lines_of_kind))
    texts += [line.remark for line in shown if line.verdict == DOES_NOT_RUN]
    if not texts:
        return ()
    return end_sentences([f"Also shown: {'; '.join(texts)}"])


def describe_informational_lines(lines: Sequence[Line]) -> str:
    """Return `time, resnet50/torch, unet3d/jax: +6.4 to +98.1 %`, or the number of one line.

    The lines have one label, metric, form and other machine. They differ in place and value.
    """
    first = lines[0]
    if len(lines) == 1:
        return f"{first.name}: {first.number}"
    words = [first.label or first.metric]
    words += [line.place for line in lines]
    words.append(first.other_machine)
    name = ", ".join(word for word in drop_duplicates(words) if word)
    return f"{name}: {format_range(list_values(lines), first.form)}"


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

    No number may be missing, none may have the opposite sign, and most must have the advice's sign
    for certain.
    """
    if any(line.value is None for line in lines):
        return False
    signs = [line.sign for line in lines]
    # an unclear sign does not contradict: its interval is wide
    if any(sign not in (advice.sign, "unclear") for sign in signs):
        return False
    agreeing = [sign for sign in signs if sign == advice.sign]
    return len(agreeing) > len(signs) / 2


def describe_advice(advice: Advice, lines: Sequence[Line]) -> str:
    """Return the text of advice with the numbers that it rests on, the undecided ones too."""
    form = lines[0].form
    values = list_values(lines)
    if advice.sign == "less":  # the smallest effect first, which a reader can count on
        values.reverse()
    text = advice.text.format(
        measured=format_effect(*compute_span(lines), form), range=format_range(values, form)
    )
    agreeing = sum(line.sign == advice.sign for line in lines)
    return f"{text} ({agreeing} of {len(lines)} compared.)"
