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
from framebench.claims.rule import NOT_MEASURED, UNMET, Verdict, summarize
from framebench.claims.store import NAMES, MachineResults
from framebench.suite.case import DEFAULT_SIZE


def ledger(
    results: Results, machine: str, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()
) -> list[Entry]:
    """Return every claim, or those named, as measured on a machine.

    If it has no GPU, what those of others have measured is added. Raises UnknownClaim.
    """
    here = MachineResults(results, machine)
    gpus = []
    if size == DEFAULT_SIZE and here.is_cpu_only:
        others = [MachineResults(results, name) for name in results.machines if name != machine]
        gpus = [
            other for other in others if not other.is_cpu_only and other.protocol == here.protocol
        ]
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
    applying = [measurement for measurement in claim.measurements if applies(measurement, size)]
    own_lines = [make_line(claim, one, machine, size) for one in applying]
    lines = let_gpus_decide(claim, add_gpu_lines(claim, own_lines, gpus))
    verdict = judge_claim(claim, machine, lines)
    numbers = with_numbers(lines)
    form = numbers[0].form if numbers else ""
    value, low, high = span(select_alike(verdict, numbers))
    files = [file for line in lines for file in line.records]
    if claim.absent:
        files += machine.files([], NAMES)
    return Entry(
        id=claim.id,
        part=claim.part,
        source=claim.source,
        says=claim.says,
        verdict=verdict,
        qualifier=qualify(verdict, lines, claim.transfers_to_gpu)
        or shorten_unmet(verdict, claim, lines),
        claimed=claim.claimed,
        metric=claim.metric,
        value=value,
        low=low,
        high=high,
        form=form,
        recommendation=choose_advice(claim, lines),
        transfers_to_gpu=claim.transfers_to_gpu,
        why=claim.why,
        reasons=make_reasons(claim, lines, machine.other_machine(NAMES) if claim.absent else ""),
        arms_told=make_informational(lines),
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
    if claim.needs.lacking:
        return UNMET
    if not claim.deciding and claim.needs.describe_unmet(Conditions()):
        return UNMET
    verdict = summarize([line.verdict for line in lines if line.decides])
    return (
        "by definition" if claim.definition and verdict in ("confirmed", NOT_MEASURED) else verdict
    )


def shorten_unmet(verdict: Verdict, claim: Claim, lines: Sequence[Line]) -> str:
    """Return in a few words why a claim cannot be tested here; empty of other verdicts."""
    if verdict != UNMET:
        return ""
    unmet = [line.remark for line in lines if line.decides and line.verdict == UNMET]
    reasons = [claim.needs.lacking or "; ".join(dict.fromkeys(unmet))]
    if not any(reasons):
        reasons = [claim.needs.describe_unmet(Conditions())]
    needs = [part.partition(":")[0] for reason in reasons for part in reason.split("; ")]
    return "; ".join(dict.fromkeys(needs))


def suggest_command(claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str) -> str:
    """Return how to measure what is missing here.

    Empty where nothing is, was tried in vain, or no records can be had.
    """
    missing = [line for line in lines if line.decides and line.verdict == NOT_MEASURED]
    if missing and all(line.tried for line in missing):
        return ""
    if not missing and (verdict != NOT_MEASURED or claim.needs.lacking):
        return ""
    return f"framebench claims {claim.id} --run{'' if size == DEFAULT_SIZE else f' --size {size}'}"


def list_names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))
