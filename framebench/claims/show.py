"""The ledger as tables, for the terminal, for documents and for the site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown
from framebench.analysis.results import Results
from framebench.claims.entries import Entry, Line, counted
from framebench.claims.ledger import ledger
from framebench.claims.rule import DECIDED, MEASURED, NOT_MEASURED, UNMET
from framebench.claims.store import device
from framebench.suite.case import FULL_SIZE, Case

HEAD = ("id", "claim", "claimed", Shown("measured", priority=ESSENTIAL), Shown("verdict", priority=ESSENTIAL), "what to do")
REPORTS = "What users report"  # the title of their table, beside that of the articles' claims
IN_SHORT = ("id", "claim", Shown("measured", priority=ESSENTIAL), Shown("verdict", priority=ESSENTIAL))
SAYS = 72  # characters of a claim's sentence in a list: some three lines at 80 columns
LINES = (
    "arm",
    "decides",
    Shown("measured", priority=ESSENTIAL),
    Shown("verdict", priority=ESSENTIAL),
    Shown("records", priority=DETAIL),
)
CAPTION = (
    "Measured is the median of the arms that decide; brackets hold the lowest and the highest end of their intervals. "
    "Where arms disagree, the lowest and the highest arm stand alone. A change is against the base of its arm. "
    "Planned arms are predictions for an H100 at full size, with their published error. Round brackets behind an advice count "
    "the arms that it rests on. Rule: docs/claims.md."
)
OF_TIME = re.compile(r"\w+/\w+ time")  # an arm: the step time of a workload in a framework


def table(entries: Sequence[Entry], title: str = "") -> Comparison:
    """One row for each claim; remarks below."""
    machine = entries[0].machine if entries else ""
    counts = Counter(entry.verdict for entry in entries)
    told = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
    cards = sorted({one.elsewhere for entry in entries for one in entry.lines if one.on_a_card and one.decides})
    where_from = ", at full size ".join([machine or "unknown", *cards])
    return Comparison.of_text(
        title or (REPORTS if machine and all(entry.source == "R" for entry in entries) else "Claims"),
        f"{CAPTION} Machine {where_from}: {told}.{protocol(entries)}",
        HEAD,
        tuple(map(row, entries)),
        left=len(HEAD),
        notes=tuple(f"{entry.name}: {entry.remark}" for entry in entries if entry.remark),
        machine=machine,
    )


def in_short(entries: Sequence[Entry]) -> Comparison:
    """One row for each claim, short enough to choose from; the arms, and what to do, are in its details."""
    whole = table(entries)
    rows = [(e.name, shorten(e.says, SAYS, placeholder=" ..."), f"{e.measured}{times(e)}", e.judged) for e in entries]
    caption = (
        "Measured is the median of the arms that decide, or the lowest and the highest where they disagree (mixed). "
        f"One claim with its arms and what to do: framebench claims '{entries[0].name}'."
    )
    return Comparison.of_text(whole.title, caption, IN_SHORT, rows, left=len(IN_SHORT), machine=whole.machine)


def times(entry: Entry) -> str:
    """Of step times with an interval that stand beside a claim about something else, on a CPU: the lowest and the highest. What
    compares something besides, such as a scan with an unrolled step, is left out."""
    beside = [
        one for one in entry.lines if not one.decides and one.bounded and one.device == "cpu" and OF_TIME.fullmatch(one.arm)
    ]
    changes = [100 * (one.value - 1) for one in beside if one.value is not None]
    ends = dict.fromkeys(f"{end:+.1f}" for end in (min(changes), max(changes))) if changes else {}
    return f"; its time on a CPU: {' to '.join(ends)} %" if ends else ""


def protocol(entries: Sequence[Entry]) -> str:
    """What the claims with numbers were measured under."""
    return next((f" Measured under protocol {entry.protocol}." for entry in entries if entry.value is not None), "")


def row(entry: Entry) -> tuple[str, ...]:
    verdict = entry.judged + (f": {entry.command}" if entry.verdict == NOT_MEASURED and entry.command else "")
    measured = f"{entry.measured}; {where(entry)}" if where(entry) and entry.value is not None else entry.measured
    return entry.name, entry.says, f"{entry.claimed} ({entry.metric})", measured, verdict, entry.recommendation


def where(entry: Entry) -> str:
    """What the arms that decided ran: `resnet50 b8, b16/cpu, unet3d b4/full planned`."""
    batches: dict[tuple[str, str, str], set[int]] = {}
    for one in entry.lines:
        if one.decides and one.value is not None and one.verdict != UNMET:
            for case in map(Case.of, one.cases):
                place = " planned" if one.planned else f" on {one.elsewhere}" if one.on_a_card else ""
                batches.setdefault((case.workload, case.size, place), set()).add(case.batch)
    return ", ".join(
        f"{workload} {', '.join(f'b{b}' for b in sorted(sizes))}/{size}{place}"
        for (workload, size, place), sizes in sorted(batches.items())
    )


def transfers(entry: Entry) -> str:
    return f"{'yes' if entry.transfers_to_gpu else 'no'}: {entry.why}"


def count(records: Sequence[str]) -> str:
    """How many files, and of which environments and probes: `4: jax-0.10.2, torch-2.13.0`; --json names each."""
    places = sorted({Path(name).parts[2] for name in records})
    return f"{len(records)}: {', '.join(places)}" if records else "-"


def detail(entry: Entry) -> Comparison:
    """The answer, and one claim's arms, the deciding ones first."""
    return Comparison.of_text(
        f"{entry.name}: {entry.says}\nVerdict: {entry.judged}. Measured: {entry.measured}{times(entry)}; "
        f"claimed: {entry.claimed} ({entry.metric}).\nWhat to do: {entry.recommendation}",
        f"Does what a CPU shows hold on a GPU? {transfers(entry)}. {' '.join(entry.reasons)}",
        LINES,
        tuple(arm(one) for one in sorted(entry.lines, key=lambda one: not one.decides)),
        notes=tuple(f"{one.name}: {one.remark}" for one in entry.lines if one.remark),
        machine=entry.machine,
    )


def arm(one: Line) -> tuple[str, ...]:
    """What stands beside is another quantity, or another case, than the claim's: its number has no verdict on the claim."""
    verdict = one.verdict if one.decides or one.verdict not in MEASURED else "-"
    decides = "beside" if not one.decides else "no" if one.verdict == UNMET else "yes"
    return one.name, decides, one.number, verdict, count(one.records)


def tables(results: Results) -> list[Comparison]:
    """What documents may show: the ledger of each machine that has records, the published one's with what cards have measured;
    of what it leaves open, what another has measured itself; and the arms that a card has measured."""
    (shown, published), *others = [(machine, ledger(results, machine)) for machine in results.machines] or [("", [])]
    added = [[one for one in entries if leaves_open(named(one, published)) and adds(one, published)] for _, entries in others]
    ledger_tables = [table(part) for part in parts(published)]
    ledger_tables += [table(part) for _, entries in others for part in parts(entries)]
    for part in (part for entries in added for part in parts(entries)):
        kind = REPORTS if part[0].source == "R" else "Claims"
        ledger_tables.append(table(part, f"{kind}, measured elsewhere than on {shown}"))
    return ledger_tables + [
        of_arms(ledger(results, machine, FULL_SIZE)) for machine in results.machines if on_a_gpu(results, machine)
    ]


def on_card(entries: Sequence[Entry]) -> list[tuple[Entry, Line]]:
    """Arms of cases that the machine has measured."""
    return [(entry, one) for entry in entries for one in entry.lines if one.cases and not one.planned and one.value is not None]


def of_arms(entries: Sequence[Entry]) -> Comparison:
    """What was measured of each claim at full size, arm by arm."""
    return Comparison.of_text(
        "Claims' arms on a GPU",
        "At full size, arm by arm; the table of claims has their verdicts together. A block is one draw: "
        "of fewer than three there is no interval, and the arm stays undecided. Added and kept bytes are of allocated ones. "
        "Rule: docs/claims.md.",
        ("claim", "says", *LINES),
        tuple((entry.name, entry.says, *arm(one)) for entry, one in on_card(entries)),
        left=2 + len(LINES),
        machine=entries[0].machine,
    )


def on_a_gpu(results: Results, machine: str) -> bool:
    """Whether it has records of a GPU, whose cases are of full size."""
    return any(device([record.provenance]) == "gpu" for record in results.of_machine(machine) if record.status == "ok")


def named(entry: Entry, published: Sequence[Entry]) -> Entry:
    """The published row of the same claim."""
    return next(one for one in published if one.name == entry.name)


def leaves_open(entry: Entry) -> bool:
    return entry.verdict in (NOT_MEASURED, UNMET, "undecided")


def adds(entry: Entry, published: Sequence[Entry]) -> bool:
    """Whether its machine has measured itself what decides an arm, and the published one has not."""
    decided = {one.id for one in counted(named(entry, published).lines) if one.verdict in DECIDED}
    own = [one for one in counted(entry.lines) if not one.planned and not one.elsewhere and one.verdict in DECIDED]
    return any(one.id not in decided for one in own)


def of_articles(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.source != "R"]


def of_trackers(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.source == "R"]


def parts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The articles' claims, and what users reported; of both what there is."""
    return [part for part in (of_articles(entries), of_trackers(entries)) if part]


def measured(entries: Sequence[Entry]) -> list[Entry]:
    """Those with a verdict from a measurement."""
    return [entry for entry in entries if entry.verdict in MEASURED]
