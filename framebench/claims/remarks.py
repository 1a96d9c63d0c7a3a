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
    printed = [line for line in lines if is_printed(line)]
    remarks = dict.fromkeys(line.remark for line in counting if line.remark)  # each once
    return make_sentences(
        describe_disagreement((line.name, line.verdict) for line in deciding),
        f"By definition: {claim.definition}" if claim.definition else "",
        describe_undecided(counting),
        describe_decided(counting),
        claim.needs.lacking,
        describe_unmet(claim, deciding),
        describe_missing(counting),
        "; ".join(remarks),
        claim.note,
        *describe_options(printed),
        *describe_machines(printed, looked_up),
    )


def is_printed(line: Line) -> bool:
    """Return whether a line is behind the verdict or is shown."""
    return line.decides or line.value is not None or line.verdict == DOES_NOT_RUN


def make_informational(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return what other GPUs have measured, and the informational numbers."""
    on_gpus = []
    for line in lines:
        if line.counts and line.on_other_gpu:
            on_gpus.append(f"{line.name}: {line.number}, {line.verdict}")
    also = describe_informational([line for line in lines if not line.decides])
    return make_sentences(
        f"On a GPU: {'; '.join(on_gpus)}" if on_gpus else "",
        f"Also shown: {'; '.join(also)}" if also else "",
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
    text = f"{len(absent)} of {len(lines)} comparisons have no number"
    untried: dict[str, None] = {}  # each case once, in order
    for line in absent:
        if not line.was_tried:
            untried |= dict.fromkeys(line.missing)
    return f"{text}: no records of {', '.join(untried)}" if untried else text


def describe_informational(lines: Sequence[Line]) -> list[str]:
    """Return informational numbers, and the errors of listings.

    Those that differ in workload and framework alone are given by their range.
    """
    numbers = [line for line in lines if line.value is not None]
    alike = group(numbers, lambda line: (line.label, line.other_machine, line.form, line.metric))
    texts = [describe_range(several) for several in alike.values()]
    texts += [line.remark for line in lines if line.verdict == DOES_NOT_RUN]
    return texts


def describe_range(lines: Sequence[Line]) -> str:
    """Return `time, resnet50/torch, unet3d/jax: +6.4 % to +98.1 %`.

    Of one line it is the number with the interval.
    """
    first = lines[0]
    if len(lines) == 1:
        return f"{first.name}: {first.number}"
    names = [first.label or first.metric]
    names += dict.fromkeys(line.place for line in lines if line.place)  # each once
    if first.on_other_gpu:
        names.append(first.other_machine)
    return f"{', '.join(names)}: {join_ends(lines)}{note_single_draws(lines)}"


def join_ends(lines: Sequence[Line]) -> str:
    """Return the least and the greatest number, or the one that both print as."""
    ranked = sorted(lines, key=lambda line: line.value or 0.0)
    return " to ".join(dict.fromkeys((ranked[0].figure, ranked[-1].figure)))


def note_single_draws(lines: Sequence[Line]) -> str:
    """Return that some of these numbers have no interval, if so."""
    if all(line.is_bounded for line in lines):
        return ""
    return " (single draws among them, without interval)"


def describe_undecided(lines: Sequence[Line]) -> str:
    """Return which measurements are undecided, if not all are, and what is left open."""
    undecided = [line for line in lines if line.value is not None and line.verdict == "undecided"]
    if not undecided or len(undecided) == len(lines):
        return ""
    texts = []
    for line in undecided:
        parts = [line.name, line.number]
        if line.left:
            parts.append(join_verdicts(line.left))
        texts.append(", ".join(parts))
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
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.compiled_with:
            names.setdefault(line.compiled_with, []).append(line.name)
    return [f"{options}: {', '.join(several)}" for options, several in names.items()]


def describe_machines(lines: Sequence[Line], looked_up: str) -> list[str]:
    """Return on which other machines probes ran, the one that looked names up first.

    Which probes these are is said where the row has cases of its own machine too.
    """
    names: dict[str, list[str]] = {}
    if looked_up:
        names[looked_up] = []
    for line in lines:
        if line.other_machine and not line.on_other_gpu:
            names.setdefault(line.other_machine, []).append(line.name)
    if looked_up or not any(line.cases for line in lines):
        return [f"Tried on {machine}" for machine in names]
    return [f"Tried on {machine}: {', '.join(several)}" for machine, several in names.items()]


def describe_unmet(claim: Claim, deciding: Sequence[Line]) -> str:
    """Return what is not as the claim needs it, and the measurements that do not decide."""
    if not claim.deciding:
        return claim.needs.describe_unmet(Conditions())
    unmet = [line for line in deciding if line.verdict == UNMET]
    alike = group(unmet, lambda line: (line.remark, line.form))
    return ". ".join(describe_skipped(several) for several in alike.values())


def describe_skipped(lines: Sequence[Line]) -> str:
    """Return `3 comparisons skipped: needs a GPU; here: +6.4 % to +98.1 %`."""
    comparisons = "comparison" if len(lines) == 1 else "comparisons"
    text = f"{len(lines)} {comparisons} skipped: {lines[0].remark}"
    numbers = [line for line in lines if line.value is not None]
    if not numbers:
        return text
    return f"{text}; here: {join_ends(numbers)}{note_single_draws(numbers)}"
