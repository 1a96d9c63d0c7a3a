"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framebench.analysis.results import Results
from framebench.claims import cards
from framebench.claims.advice import advice
from framebench.claims.claim import Claim
from framebench.claims.entries import Entry, Line, counted, hull, qualifier
from framebench.claims.lines import applies, line
from framebench.claims.needs import Conditions
from framebench.claims.registry import REGISTRY
from framebench.claims.remarks import remarks
from framebench.claims.rule import NOT_MEASURED, UNMET, Verdict, summary
from framebench.claims.store import NAMES, Measured
from framebench.suite.case import DEFAULT_SIZE


def ledger(results: Results, machine: str, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()) -> list[Entry]:
    """Every claim (or those named) as measured on a machine, or if it has no card on others' cards too. Raises UnknownClaim."""
    measured = Measured(results, machine)
    others = [Measured(results, name) for name in results.machines if name != machine] if size == DEFAULT_SIZE else []
    cards_alike = [other for other in others if not other.on_cpu and other.protocol == measured.protocol]
    with_cards = cards_alike if measured.on_cpu else []
    return [entry(claim, measured, size, with_cards) for claim in REGISTRY.chosen(ids)]


def measured_there(claim_entry: Entry) -> bool:
    """Whether its machine has records behind it: a claim by definition, or with a precondition, has a verdict without any."""
    return bool(claim_entry.records) and claim_entry.verdict != NOT_MEASURED


def entry(claim: Claim, measured: Measured, size: str, with_cards: Sequence[Measured] = ()) -> Entry:
    own = [line(claim, arm, measured, size) for arm in claim.every_arm if applies(arm, size)]
    lines = cards.added(claim, own, with_cards)
    verdict = verdict_on(claim, measured, lines)
    arms = counted(lines)
    alike = [one for one in arms if one.form == arms[0].form]
    where = measured.elsewhere(NAMES) if claim.absent else ""
    files = [f for one in lines for f in one.records] + (measured.files([], NAMES) if claim.absent else [])
    return Entry(
        claim.id, claim.part, claim.source, claim.says, verdict, qualifier(verdict, lines, claim.transfers_to_gpu),
        claim.claimed, claim.metric, *hull([one for one in alike if one.low is not None] or alike),
        alike[0].form if alike else "", advice(claim, lines), claim.transfers_to_gpu, claim.why, *remarks(claim, lines, where),
        command(claim, lines, verdict, size), tuple(dict.fromkeys(files)), tuple(lines), measured.machine, size,
        measured.protocol,
    )  # fmt: skip


def verdict_on(claim: Claim, measured: Measured, lines: Sequence[Line]) -> Verdict:
    """By definition only where no arm says otherwise; no such API where a look-up found none of the names."""
    deciding = [one.verdict for one in lines if one.decides]
    if claim.absent:
        looked_up = measured.probe(NAMES)
        if looked_up is None or any(name not in looked_up.names for name in claim.absent):
            return NOT_MEASURED
        if not any(looked_up.names[name] for name in claim.absent):
            return "no such API"
    if claim.needs.lacking():
        return NOT_MEASURED
    if not claim.arms and claim.needs.unmet(Conditions()):
        return UNMET
    judged_all = summary(deciding)
    return "by definition" if claim.definition and judged_all in ("reproduced", NOT_MEASURED) else judged_all


def command(claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str) -> str:
    """How to measure what is missing here; empty where nothing is, was tried in vain, or no records can be had."""
    lacking = [one for one in lines if one.decides and one.verdict == NOT_MEASURED]
    missing = any(not one.tried for one in lacking) or (verdict == NOT_MEASURED and not lacking and not claim.needs.lacking())
    where = "" if size == DEFAULT_SIZE else f" --size {size}"
    return f"framebench claims {claim.id} --run{where}" if missing else ""


def names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Every name that is looked up."""
    return tuple(dict.fromkeys(name for claim in claims for name in claim.absent))
