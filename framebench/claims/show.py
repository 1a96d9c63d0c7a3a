"""The ledger as tables, for the terminal, for documents and for the site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.claims.answers import describe_for_device
from framebench.claims.entries import Entry, Line, with_numbers
from framebench.claims.ledger import ledger
from framebench.claims.rule import DECIDED, MEASURED, NOT_MEASURED, UNMET
from framebench.claims.store import device_of
from framebench.records import store
from framebench.suite.case import FULL_SIZE, Case

MEASURED_COLUMN = TableColumn("measured", priority=ESSENTIAL)
VERDICT_COLUMN = TableColumn("verdict", priority=ESSENTIAL)
HEAD = ("id", "claim", "claimed", MEASURED_COLUMN, VERDICT_COLUMN, "what to do")
HEAD_OF_LIST = ("id", "claim", MEASURED_COLUMN, VERDICT_COLUMN)
HEAD_OF_LINES = (
    "arm",
    "decides",
    MEASURED_COLUMN,
    VERDICT_COLUMN,
    TableColumn("records", priority=DETAIL),
)
FEW_LINES = 6  # of an answer: what an eye takes in
CLAIMS = "Claims"  # the title of the articles' table
REPORTS = "What users report"  # and the trackers'
SAYS = 72  # characters of a claim's sentence in a list: some three lines at 80 columns
CAPTION = (
    "Measured is the median of the arms that decide; brackets hold the lowest and the highest end "
    "of their intervals. "
    "Where arms disagree, the lowest and the highest arm stand alone. A change is against the "
    "base of its arm. "
    "Planned arms are predictions for an H100 at full size, with their published error. Round "
    "brackets behind an advice count "
    "the arms that it rests on. Rule: docs/claims.md."
)
STEP_TIME = re.compile(r"\w+/\w+ time")  # a measurement: the step time of a workload in a framework


def is_report(entry: Entry) -> bool:
    """Return whether users reported it in a tracker, and no article claims it."""
    return entry.source == "R"


def title_of(entries: Sequence[Entry]) -> str:
    """Return the title of a table: the articles' claims, or what users reported."""
    return REPORTS if entries and all(map(is_report, entries)) else CLAIMS


def split_by_source(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the articles' claims, and what users reported; of both what there is."""
    claims = [entry for entry in entries if not is_report(entry)]
    reports = [entry for entry in entries if is_report(entry)]
    return [part for part in (claims, reports) if part]


def make_table(entries: Sequence[Entry], title: str = "") -> Table:
    """Return a table with one row for each claim; remarks below."""
    machine = entries[0].machine if entries else ""
    counts = Counter(entry.verdict for entry in entries).most_common()
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts)
    deciding = [
        line for entry in entries for line in entry.lines if line.decides and line.on_other_gpu
    ]
    gpus = sorted({line.elsewhere for line in deciding})
    measured = [entry for entry in entries if entry.value is not None]
    protocol = f" Measured under protocol {measured[0].protocol}." if measured else ""
    machines = ", at full size ".join([machine or "unknown", *gpus])
    return Table.of_text(
        title or (title_of(entries) if machine else CLAIMS),
        f"{CAPTION} Machine {machines}: {verdicts}.{protocol}",
        HEAD,
        [make_row(entry) for entry in entries],
        left=len(HEAD),
        notes=tuple(f"{entry.name}: {entry.remark}" for entry in entries if entry.remark),
        machine=machine,
    )


def make_row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of a claim."""
    measured, verdict, place = entry.measured, entry.judged, describe_cases(entry)
    if place and entry.value is not None:
        measured += f"; {place}"
    if entry.verdict == NOT_MEASURED and entry.command:
        verdict += f": {entry.command}"
    return (
        entry.name,
        f"{entry.says} ({entry.place})" if entry.place else entry.says,
        f"{entry.claimed} ({entry.metric})",
        measured,
        verdict,
        entry.recommendation,
    )


def make_list(entries: Sequence[Entry]) -> Table:
    """Return one row for each claim, short enough to choose from; its details have the rest."""
    rows = []
    for entry in entries:
        says = shorten(entry.says, SAYS, placeholder=" ...")
        rows.append((entry.name, says, f"{entry.measured}{describe_times(entry)}", entry.judged))
    caption = (
        "Measured is the median of the arms that decide, or the lowest and the highest where they "
        "disagree (mixed). "
        f"One claim with its arms and what to do: framebench claims '{entries[0].name}'."
    )
    return Table.of_text(
        title_of(entries),
        caption,
        HEAD_OF_LIST,
        rows,
        left=len(HEAD_OF_LIST),
        machine=entries[0].machine,
    )


def describe_times(entry: Entry) -> str:
    """Return the lowest and the highest change of informational step times on a CPU.

    What compares something else as well, such as a scan with an unrolled step, is left out.
    """
    changes = []
    for line in entry.lines:
        is_time = (
            not line.decides
            and line.is_bounded
            and line.device == "cpu"
            and STEP_TIME.fullmatch(line.arm)
        )
        if is_time and line.value is not None:
            changes.append(100 * (line.value - 1))
    if not changes:
        return ""
    ends = dict.fromkeys((f"{min(changes):+.1f}", f"{max(changes):+.1f}"))
    return f"; its time on a CPU: {' to '.join(ends)} %"


def describe_cases(entry: Entry) -> str:
    """Return which cases decided: `resnet50 b8, b16/cpu, unet3d b4/full planned`."""
    batches: dict[tuple[str, str, str], set[int]] = {}
    for line in with_numbers(entry.lines):
        place = ""
        if line.planned:
            place = " planned"
        elif line.on_other_gpu:
            place = f" on {line.elsewhere}"
        for name in line.cases:
            case = Case.from_id(name)
            batches.setdefault((case.workload, case.size, place), set()).add(case.batch)
    texts = []
    for (workload, size, place), several in sorted(batches.items()):
        listed = ", ".join(f"b{batch}" for batch in sorted(several))
        texts.append(f"{workload} {listed}/{size}{place}")
    return ", ".join(texts)


def make_answer(entry: Entry, device: str = "") -> Table:
    """Return the verdict, for a device if one is named, and at most six lines of measurements."""
    answer = (
        describe_for_device(entry, device)
        if device
        else f"{entry.judged[0].upper()}{entry.judged[1:]}. "
        f"Measured: {entry.measured}{describe_times(entry)}."
    )
    lines = [line for line in entry.lines if line.value is not None]
    lines.sort(key=lambda line: (not line.counts, not line.aside, line.device == "cpu"))
    hidden = len(entry.lines) - len(lines[:FEW_LINES])
    lines_word = "line" if hidden == 1 else "lines"
    more = f"{hidden} more {lines_word} and the remarks" if hidden else "Remarks"
    place = f" {entry.place[0].upper()}{entry.place[1:]}." if entry.place else ""
    return Table.of_text(
        f"{answer}\n{entry.name}: {entry.says}\n"
        f"Claimed: {entry.claimed} ({entry.metric}).{place}\nWhat to do: {entry.recommendation}",
        f"{more}: framebench claims '{entry.name}' --all.",
        HEAD_OF_LINES[:-1],
        [make_line_row(line)[:-1] for line in lines[:FEW_LINES]],
        machine=entry.machine,
    )


def make_detail(entry: Entry) -> Table:
    """Return the answer, and one claim's measurements, the deciding ones first."""
    transfers = "yes" if entry.transfers_to_gpu else "no"
    return Table.of_text(
        f"{entry.name}: {entry.says}\nVerdict: {entry.judged}. Measured: "
        f"{entry.measured}{describe_times(entry)}; "
        f"claimed: {entry.claimed} ({entry.metric}).\nWhat to do: {entry.recommendation}",
        f"Does what a CPU shows hold on a GPU? {transfers}: {entry.why}. {' '.join(entry.reasons)}",
        HEAD_OF_LINES,
        [make_line_row(line) for line in sorted(entry.lines, key=lambda line: not line.decides)],
        notes=tuple(f"{line.name}: {line.remark}" for line in entry.lines if line.remark),
        machine=entry.machine,
    )


def make_line_row(line: Line) -> tuple[str, ...]:
    """Return the cells of a measurement.

    An informational one is of another quantity, or another case, than the claim's: its number has
    no verdict on the claim.
    """
    decides = "beside a GPU's" if line.aside else "beside"
    if line.decides:
        decides = "yes" if line.counts else "no"
    is_judged = line.decides or line.aside or line.verdict not in MEASURED
    verdict = line.verdict if is_judged else "-"
    # how many records, and of which environments and probes; --json names each
    places = sorted({name_origin(name) for name in line.records})
    records = f"{len(line.records)}: {', '.join(places)}" if line.records else "-"
    return line.name, decides, line.number, verdict, records


def name_origin(record: str) -> str:
    """Return the release that a record is of, or the probe, or the file of a prediction.

    A record is such as `records/xeon-2core/torch-2.13.0.jsonl:17`.
    """
    origin = Path(record).parts[2]
    release, has_line, _ = origin.partition(f"{store.SUFFIX}:")
    return release if has_line else origin


def make_tables(results: Results) -> list[Table]:
    """Return what documents may show.

    The ledger of each machine that has records, the first one's with what GPUs have measured; of
    what that leaves open, what another has measured itself; and the measurements on a GPU.
    """
    ledgers = [(machine, ledger(results, machine)) for machine in results.machines] or [("", [])]
    tables = [make_table(part) for _, entries in ledgers for part in split_by_source(entries)]
    (first_machine, published), *others = ledgers
    by_name = {entry.name: entry for entry in published}
    for _, entries in others:
        added = [entry for entry in entries if adds_to(by_name[entry.name], entry)]
        for part in split_by_source(added):
            tables.append(
                make_table(part, f"{title_of(part)}, measured elsewhere than on {first_machine}")
            )
    for machine in results.machines:
        records = [record for record in results.get_records(machine) if record.status == "ok"]
        if any(device_of(record.provenance) == "gpu" for record in records):
            tables.append(make_gpu_table(ledger(results, machine, FULL_SIZE)))
    return tables


def adds_to(published: Entry, entry: Entry) -> bool:
    """Return whether a machine has measured what the published row leaves open."""
    if published.verdict not in (NOT_MEASURED, UNMET, "undecided"):
        return False
    decided = {line.id for line in with_numbers(published.lines) if line.verdict in DECIDED}
    for line in with_numbers(entry.lines):
        is_own = not line.planned and not line.elsewhere
        if is_own and line.verdict in DECIDED and line.id not in decided:
            return True
    return False


def make_gpu_table(entries: Sequence[Entry]) -> Table:
    """Return what was measured of each claim at full size, line by line."""
    rows = []
    for entry in entries:
        for line in entry.lines:
            if line.cases and not line.planned and line.value is not None:
                rows.append((entry.name, entry.says, *make_line_row(line)))
    return Table.of_text(
        "Claims' arms on a GPU",
        "At full size, arm by arm; the table of claims has their verdicts together. A block is "
        "one draw: "
        "of fewer than three there is no interval, and the arm stays undecided. Added and kept "
        "bytes are of allocated ones. "
        "Rule: docs/claims.md.",
        ("claim", "says", *HEAD_OF_LINES),
        rows,
        left=2 + len(HEAD_OF_LINES),
        machine=entries[0].machine,
    )
