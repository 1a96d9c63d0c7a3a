"""What stands below a row: who disagrees, what is missing, and informational numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from framebench.claims.claim import Claim
from framebench.claims.entries import Line, join_verdicts
from framebench.claims.needs import Conditions
from framebench.claims.rule import DECIDED, DOES_NOT_RUN, UNMET, describe_disagreement, summarize


def make_reasons(claim: Claim, lines: Sequence[Line], looked_up: str = "") -> tuple[str, ...]:
    """Return what the numbers cannot say: disagreement, what is missing, circumstances.

    `looked_up` is the machine that looked names up, if it is another one.
    """
    deciding = [line for line in lines if line.decides]
    counting = [line for line in deciding if line.counts]
    printed = [
        line
        for line in lines
        if line.decides or line.value is not None or line.verdict == DOES_NOT_RUN
    ]
    return make_sentences(
        describe_disagreement((line.name, line.verdict) for line in deciding),
        f"By definition: {claim.definition}" if claim.definition else "",
        describe_undecided(counting),
        describe_decided(counting),
        "; ".join(filter(None, (claim.needs.lacking, describe_unmet(claim, deciding)))),
        describe_missing(counting),
        "; ".join(dict.fromkeys(line.remark for line in counting if line.remark)),
        claim.note,
        *describe_options(printed),
        *describe_machines(printed, looked_up),
    )


def make_informational(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return what other GPUs have measured, and the informational numbers."""
    on_gpus = [
        f"{line.name}: {line.number}, {line.verdict}"
        for line in lines
        if line.counts and line.on_other_gpu
    ]
    beside = describe_informational([line for line in lines if not line.decides])
    return make_sentences(
        f"On a card: {'; '.join(on_gpus)}" if on_gpus else "",
        f"Beside: {'; '.join(beside)}" if beside else "",
    )


def make_sentences(*parts: str) -> tuple[str, ...]:
    """Return the parts that are not empty, each with a full stop."""
    return tuple(part if part.endswith(".") else f"{part}." for part in parts if part)


def group(lines: Iterable[Line], key: Callable[[Line], Hashable]) -> dict[Hashable, list[Line]]:
    """Return the lines by a key, in the order in which keys appear."""
    groups: dict[Hashable, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def describe_missing(lines: Sequence[Line]) -> str:
    """Return how many measurements have no number, and the cases that nobody has tried."""
    absent = [line for line in lines if line.value is None]
    if not absent:
        return ""
    untried = dict.fromkeys(case for line in absent if not line.tried for case in line.missing)
    cases = f": no records of {', '.join(untried)}" if untried else ""
    return f"{len(absent)} of {len(lines)} arms have no number{cases}"


def describe_informational(lines: Sequence[Line]) -> list[str]:
    """Return informational numbers, and the errors of listings.

    Those that differ in workload and framework alone are told by their range.
    """
    numbers = [line for line in lines if line.value is not None]
    alike = group(numbers, lambda line: (line.label, line.elsewhere, line.form, line.metric))
    return [describe_range(several) for several in alike.values()] + [
        line.remark for line in lines if line.verdict == DOES_NOT_RUN
    ]


def describe_range(lines: Sequence[Line]) -> str:
    """Return `time, resnet50/torch, unet3d/jax: +6.4 % to +98.1 %`.

    Of one line it is the number with the interval.
    """
    first = lines[0]
    if len(lines) == 1:
        return f"{first.name}: {first.number}"
    names = dict.fromkeys(
        [first.label or first.metric, *(line.place for line in lines if line.place)]
    )
    gpu = f", {first.elsewhere}" if first.on_other_gpu else ""
    return f"{', '.join(names)}{gpu}: {join_ends(lines)}{note_single_draws(lines)}"


def join_ends(lines: Sequence[Line]) -> str:
    """Return the least and the greatest number, or the one that both print as."""
    ranked = sorted(lines, key=lambda line: line.value or 0.0)
    return " to ".join(dict.fromkeys((ranked[0].figure, ranked[-1].figure)))


def note_single_draws(lines: Sequence[Line]) -> str:
    """Return that some of these numbers have no interval, if so."""
    return (
        " (single draws among them, without interval)"
        if any(not line.is_bounded for line in lines)
        else ""
    )


def describe_undecided(lines: Sequence[Line]) -> str:
    """Return which measurements are undecided, if not all are, and what is left open."""
    undecided = [line for line in lines if line.value is not None and line.verdict == "undecided"]
    if not undecided or len(undecided) == len(lines):
        return ""
    texts = []
    for line in undecided:
        texts.append(", ".join(filter(None, (line.name, line.number, join_verdicts(line.left)))))
    return f"Undecided: {'; '.join(texts)}"


def describe_decided(lines: Sequence[Line]) -> str:
    """Return what the decided lines of an undecided claim say, with their numbers."""
    decided = [line for line in lines if line.verdict in DECIDED]
    if not decided or summarize([line.verdict for line in lines]) != "undecided":
        return ""
    texts = [f"{line.name}, {line.number}" for line in decided]
    return f"{decided[0].verdict.capitalize()}: {'; '.join(texts)}"


def describe_options(lines: Sequence[Line]) -> list[str]:
    """Return in which comparisons the two cases were compiled differently."""
    alike = group((line for line in lines if line.unlike), lambda line: line.unlike)
    return [
        f"{unlike}: {', '.join(line.name for line in several)}" for unlike, several in alike.items()
    ]


def describe_machines(lines: Sequence[Line], looked_up: str) -> list[str]:
    """Return on which other machine probes ran.

    Which probes, where the row has cases of its own machine too.
    """
    probed = group(
        (line for line in lines if line.elsewhere and not line.on_other_gpu),
        lambda line: line.elsewhere,
    )
    machines = {looked_up: probed.pop(looked_up, [])} | probed if looked_up else probed
    is_mixed = any(line.cases for line in lines) and not looked_up
    texts = []
    for machine, several in machines.items():
        names = ": " + ", ".join(line.name for line in several) if is_mixed else ""
        texts.append(f"Tried on {machine}{names}")
    return texts


def describe_unmet(claim: Claim, deciding: Sequence[Line]) -> str:
    """Return what is not as the claim needs it, and the measurements that do not decide."""
    if not claim.deciding:
        return claim.needs.describe_unmet(Conditions())
    unmet = [line for line in deciding if line.verdict == UNMET]
    alike = group(unmet, lambda line: (line.remark, line.form))
    return ". ".join(describe_skipped(several) for several in alike.values())


def describe_skipped(lines: Sequence[Line]) -> str:
    """Return `3 arms decide nothing: needs a GPU; here: +6.4 % to +98.1 %`."""
    numbers = [line for line in lines if line.value is not None]
    here = f"; here: {join_ends(numbers)}" if numbers else ""
    subject = "arms decide" if len(lines) > 1 else "arm decides"
    return f"{len(lines)} {subject} nothing: {lines[0].remark}{here}{note_single_draws(numbers)}"
