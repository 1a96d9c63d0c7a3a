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
    "comparison",
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
    "Measured is the median of the comparisons that decide; brackets hold the lowest and the "
    "highest end of their intervals. Where comparisons disagree, the lowest and the highest of "
    "them are given. A change is against the base of its comparison. What is planned is predicted "
    "for an H100 at full size, with the published error. Brackets behind an advice count the "
    "comparisons that it rests on. Rule: docs/claims.md."
)
STEP_TIME = re.compile(r"\w+/\w+ time")  # a measurement: the step time of a workload in a framework


def is_report(entry: Entry) -> bool:
    """Return whether users reported it in a tracker, and no article claims it."""
    return entry.source == "R"


def title_of(entries: Sequence[Entry]) -> str:
    """Return the title of a table: the articles' claims, or what users reported."""
    return REPORTS if all(map(is_report, entries)) else CLAIMS


def split_by_source(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the articles' claims, and what users reported; of both what there is."""
    claims = [entry for entry in entries if not is_report(entry)]
    reports = [entry for entry in entries if is_report(entry)]
    return [part for part in (claims, reports) if part]


def make_table(entries: Sequence[Entry], title: str = "") -> Table:
    """Return a table with one row for each claim; remarks below."""
    rows = []
    notes = []
    for entry in entries:
        rows.append(make_row(entry))
        if entry.remark:
            notes.append(f"{entry.name}: {entry.remark}")
    return Table.of_text(
        title or title_of(entries),
        f"{CAPTION} {describe_machines(entries)}",
        HEAD,
        rows,
        left=len(HEAD),
        notes=tuple(notes),
        machine=entries[0].machine,
    )


def describe_machines(entries: Sequence[Entry]) -> str:
    """Return which machines and which protocol a table is of, and how often each verdict is."""
    gpus = set()
    for entry in entries:
        for line in entry.lines:
            if line.decides and line.on_other_gpu:
                gpus.add(line.other_machine)
    machines = [entries[0].machine, *sorted(gpus)]
    counts = Counter(entry.verdict for entry in entries)
    verdicts = [f"{count} {verdict}" for verdict, count in counts.most_common()]
    text = f"Machine {', at full size '.join(machines)}: {', '.join(verdicts)}."
    for entry in entries:
        if entry.value is not None:
            return f"{text} Measured under protocol {entry.protocol}."
    return text


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
        "Measured is the median of the comparisons that decide, or the lowest and the highest "
        "where they disagree (mixed). One claim with its comparisons and what to do: "
        f"framebench claims '{entries[0].name}'."
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
        if line.decides or line.device != "cpu" or not STEP_TIME.fullmatch(line.measurement):
            continue
        if line.value is not None and line.is_bounded:
            changes.append(100 * (line.value - 1))
    if not changes:
        return ""
    ends = dict.fromkeys((f"{min(changes):+.1f}", f"{max(changes):+.1f}"))  # one if they are equal
    return f"; its time on a CPU: {' to '.join(ends)} %"


def describe_cases(entry: Entry) -> str:
    """Return which cases decided: `resnet50 b8, b16/cpu, unet3d b4/full planned`."""
    batches: dict[tuple[str, str, str], set[int]] = {}
    for line in with_numbers(entry.lines):
        place = ""
        if line.planned:
            place = " planned"
        elif line.on_other_gpu:
            place = f" on {line.other_machine}"
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
    if device:
        answer = describe_for_device(entry, device)
    else:
        verdict = capitalize(entry.judged)
        answer = f"{verdict}. Measured: {entry.measured}{describe_times(entry)}."
    place = f" {capitalize(entry.place)}." if entry.place else ""
    lines = [line for line in entry.lines if line.value is not None]
    lines.sort(key=lambda line: (not line.counts, not line.set_aside, line.device == "cpu"))
    rows = [make_line_row(line)[:-1] for line in lines[:FEW_LINES]]
    return Table.of_text(
        f"{answer}\n"
        f"{entry.name}: {entry.says}\n"
        f"Claimed: {entry.claimed} ({entry.metric}).{place}\n"
        f"What to do: {entry.recommendation}",
        f"{count_hidden(len(entry.lines) - len(rows))}: framebench claims '{entry.name}' --all.",
        HEAD_OF_LINES[:-1],
        rows,
        machine=entry.machine,
    )


def capitalize(text: str) -> str:
    """Return a text with a first capital, and the rest as it is."""
    return f"{text[0].upper()}{text[1:]}"


def count_hidden(lines: int) -> str:
    """Return what an answer leaves out: `2 more lines and the remarks`."""
    if lines == 0:
        return "Remarks"
    return f"{lines} more {'line' if lines == 1 else 'lines'} and the remarks"


def make_detail(entry: Entry) -> Table:
    """Return the answer, and one claim's measurements, the deciding ones first."""
    transfers = "yes" if entry.transfers_to_gpu else "no"
    deciding_first = sorted(entry.lines, key=lambda line: not line.decides)
    return Table.of_text(
        f"{entry.name}: {entry.says}\n"
        f"Verdict: {entry.judged}. Measured: {entry.measured}{describe_times(entry)}; "
        f"claimed: {entry.claimed} ({entry.metric}).\n"
        f"What to do: {entry.recommendation}",
        f"Does what a CPU shows hold on a GPU? {transfers}: {entry.why}. {' '.join(entry.reasons)}",
        HEAD_OF_LINES,
        [make_line_row(line) for line in deciding_first],
        notes=tuple(f"{line.name}: {line.remark}" for line in entry.lines if line.remark),
        machine=entry.machine,
    )


def make_line_row(line: Line) -> tuple[str, ...]:
    """Return the cells of a measurement.

    An informational one is of another quantity, or another case, than the claim's: its number has
    no verdict on the claim.
    """
    is_judged = line.decides or line.set_aside or line.verdict not in MEASURED
    verdict = line.verdict if is_judged else "-"
    return line.name, describe_use(line), line.number, verdict, describe_records(line)


def describe_use(line: Line) -> str:
    """Return whether a measurement is used for the verdict."""
    if line.counts:
        return "yes"
    if line.decides:
        return "no"
    return "no: a GPU's does" if line.set_aside else "no: also shown"


def describe_records(line: Line) -> str:
    """Return how many records a measurement has, and of which releases or probes they are."""
    if not line.records:
        return "-"
    places = sorted({name_origin(name) for name in line.records})
    return f"{len(line.records)}: {', '.join(places)}"


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
    machines = results.machines
    ledgers = {machine: ledger(results, machine) for machine in machines}
    tables = []
    for entries in ledgers.values():
        tables += [make_table(part) for part in split_by_source(entries)]
    for machine in machines[1:]:
        tables += make_added_tables(ledgers[machines[0]], ledgers[machine])
    for machine in machines:
        if has_gpu(results, machine):
            tables.append(make_gpu_table(ledger(results, machine, FULL_SIZE)))
    return tables


def make_added_tables(published: Sequence[Entry], others: Sequence[Entry]) -> list[Table]:
    """Return tables of what another machine has measured and the published one leaves open."""
    by_name = {entry.name: entry for entry in published}
    added = [entry for entry in others if adds_to(by_name[entry.name], entry)]
    tables = []
    for part in split_by_source(added):
        title = f"{title_of(part)}, measured elsewhere than on {published[0].machine}"
        tables.append(make_table(part, title))
    return tables


def has_gpu(results: Results, machine: str) -> bool:
    """Return whether a machine has measured anything on a GPU."""
    for record in results.get_records(machine):
        if record.status == "ok" and device_of(record.provenance) == "gpu":
            return True
    return False


def adds_to(published: Entry, entry: Entry) -> bool:
    """Return whether a machine has measured what the published row leaves open."""
    if published.verdict not in (NOT_MEASURED, UNMET, "undecided"):
        return False
    known = {line.id for line in published.lines if line.counts and line.verdict in DECIDED}
    for line in entry.lines:
        is_own = line.counts and not line.planned and not line.other_machine
        if is_own and line.verdict in DECIDED and line.id not in known:
            return True
    return False


def make_gpu_table(entries: Sequence[Entry]) -> Table:
    """Return what was measured of each claim at full size, line by line."""
    rows = []
    for entry in entries:
        for line in entry.lines:
            if line.cases and not line.planned and line.value is not None:
                rows.append((entry.name, entry.says, *make_line_row(line)))
    head = ("claim", "says", *HEAD_OF_LINES)
    return Table.of_text(
        "Claims on a GPU, comparison by comparison",
        "At full size; the table of claims has their verdicts together. A block is one draw: of "
        "fewer than three there is no interval, and the comparison stays undecided. Added and "
        "saved bytes are of allocated ones. Rule: docs/claims.md.",
        head,
        rows,
        left=len(head),
        machine=entries[0].machine,
    )
