"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framebench.analysis.results import Results
from framebench.claims.advice import choose_advice
from framebench.claims.claim import Claim
from framebench.claims.entries import Entry, Line, qualify, select_alike, span, with_numbers
from framebench.claims.lines import add_gpu_lines, applies, let_gpus_decide, make_line
from framebench.claims.needs import Conditions
from framebench.claims.registry import REGISTRY
from framebench.claims.remarks import make_informational, make_reasons
from framebench.claims.rule import (
    NOT_MEASURED,
    UNMET,
    Verdict,
    summarize,
    summarize_possible,
)
from framebench.claims.store import NAMES, MachineResults, SharedResults
from framebench.suite.case import DEFAULT_SIZE


def ledger(
    results: Results,
    machine: str,
    size: str = DEFAULT_SIZE,
    ids: Iterable[str] = (),
    shared: SharedResults | None = None,
) -> list[Entry]:
    """Return every claim, or those named, as measured on a machine.

    If it has no GPU, what those of others have measured is added. `shared` may be what another
    ledger of these results has read. Raises UnknownClaim.
    """
    shared = shared or SharedResults(results.root)
    here = MachineResults(results, machine, shared)
    gpus = []
    if size == DEFAULT_SIZE and here.is_cpu_only:
        for name in results.machines:
            if name == machine:
                continue
            other = MachineResults(results, name, shared)
            if not other.is_cpu_only and other.protocol == here.protocol:
                gpus.append(other)
    return [make_entry(claim, here, size, gpus) for claim in REGISTRY.chosen(ids)]


def is_measured(entry: Entry) -> bool:
    """Return whether the entry's machine has records behind it.

    A claim by definition, or with a precondition, has a verdict without any.
    """
    return bool(entry.records) and entry.verdict != NOT_MEASURED


def make_entry(
    claim: Claim, machine: MachineResults, size: str, gpus: Sequence[MachineResults] = ()
) -> Entry:
    """Return a claim as measured on a machine, and on other machines with a GPU."""
    own_lines = []
    for measurement in claim.measurements:
        if applies(measurement, size):
            own_lines.append(make_line(claim, measurement, machine, size))
    lines = let_gpus_decide(claim, add_gpu_lines(claim, own_lines, gpus))
    verdict = judge_claim(claim, machine, lines)
    qualifiers = qualify(verdict, lines, claim)
    numbers = with_numbers(lines)
    value, low, high = span(select_alike(verdict, numbers))
    files = [file for line in lines for file in line.records]
    names_machine = ""
    if claim.absent:
        files += machine.files([], NAMES)
        names_machine = machine.other_machine(NAMES)
    return Entry(
        id=claim.id,
        part=claim.part,
        source=claim.source,
        says=claim.says,
        verdict=verdict,
        qualifier="; ".join(qualifiers) or shorten_unmet(verdict, claim, lines),
        claimed=claim.claimed,
        metric=claim.metric,
        value=value,
        low=low,
        high=high,
        form=numbers[0].form if numbers else "",
        recommendation=choose_advice(claim, lines),
        transfers_to_gpu=claim.transfers_to_gpu,
        why=claim.why,
        reasons=make_reasons(claim, lines, names_machine),
        also_shown=make_informational(lines),
        command=suggest_command(claim, lines, verdict, size),
        records=tuple(dict.fromkeys(files)),
        lines=tuple(lines),
        machine=machine.machine,
        size=size,
        protocol=machine.protocol,
        place=str(claim.place or ""),
    )


def judge_claim(claim: Claim, machine: MachineResults, lines: Sequence[Line]) -> Verdict:
    """Return the verdict on a claim.

    It is true by definition only where no measurement says otherwise, and there is no such API
    where a look-up found none of the names.
    """
    if claim.absent:
        looked_up = machine.probe(NAMES)
        if looked_up is None or not machine.looked_up(claim.absent):
            return NOT_MEASURED
        if not any(looked_up.names[name] for name in claim.absent):
            return "no such API"
    is_unmet = not claim.deciding and bool(claim.needs.describe_unmet(Conditions()))
    if claim.needs.lacking or is_unmet:
        return UNMET
    verdicts = [line.verdict for line in lines if line.decides]
    verdict = summarize_possible(verdicts) if claim.may else summarize(verdicts)
    if claim.definition and verdict in ("confirmed", NOT_MEASURED):
        return "by definition"
    return verdict


def shorten_unmet(verdict: Verdict, claim: Claim, lines: Sequence[Line]) -> str:
    """Return in a few words why a claim cannot be tested here; empty of other verdicts."""
    if verdict != UNMET:
        return ""
    reasons = [claim.needs.lacking]
    if not claim.needs.lacking:
        reasons = [line.remark for line in lines if line.decides and line.verdict == UNMET]
    if not reasons:
        reasons = [claim.needs.describe_unmet(Conditions())]
    needs = []
    for reason in reasons:
        needs += [part.partition(":")[0] for part in reason.split("; ")]
    return "; ".join(dict.fromkeys(needs))  # each once


def suggest_command(claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str) -> str:
    """Return how to measure what is missing here.

    Empty where nothing is, was tried in vain, or no records can be had.
    """
    missing = [line for line in lines if line.decides and line.verdict == NOT_MEASURED]
    if missing and all(line.was_tried for line in missing):
        return ""
    if not missing and (verdict != NOT_MEASURED or claim.needs.lacking):
        return ""
    command = f"framebench claims {claim.id} --run"
    return command if size == DEFAULT_SIZE else f"{command} --size {size}"


def list_names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))
