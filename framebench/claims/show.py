"""The ledger as tables, for the terminal, for documents and for the site."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.claims.devices import (
    describe_for_device,
    describe_for_subject,
    has_gpu_verdict,
    is_of_device,
    let_device_decide,
)
from framebench.claims.ledger import Entry, make_ledger
from framebench.claims.lines import Line
from framebench.claims.rule import MEASURED, NOT_MEASURED
from framebench.claims.search import FRAMEWORKS
from framebench.claims.store import get_device
from framebench.devices.catalog import BY_NAME
from framebench.records import store
from framebench.suite.case import FULL_SIZE, Case
from framebench.suite.counting import format_count

MEASURED_COLUMN = TableColumn("measured", priority=ESSENTIAL)
PLANNED_COLUMN = TableColumn("planned", priority=ESSENTIAL)
VERDICT_COLUMN = TableColumn("verdict", priority=ESSENTIAL)
COLUMNS = ("id", "claim", "claimed", MEASURED_COLUMN, PLANNED_COLUMN, VERDICT_COLUMN, "what to do")
LIST_COLUMNS = ("id", "claim", MEASURED_COLUMN, PLANNED_COLUMN, VERDICT_COLUMN)
LINE_COLUMNS = (
    "comparison",
    "decides",
    MEASURED_COLUMN,
    PLANNED_COLUMN,
    VERDICT_COLUMN,
    TableColumn("records", priority=DETAIL),
)
MOST_LINES = 6  # of an answer: what an eye takes in
CLAIMS = "Claims"  # the title of the table of articles' claims
REPORTS = "What users report"  # the title of the table of reports in issue trackers
MOST_CHARACTERS = 72  # of a claim's sentence in a list: some three lines at 80 columns
CAPTION = (
    "Measured and planned are medians of the comparisons that decide; brackets hold the lowest "
    "and the highest end of their intervals. Where comparisons disagree, the lowest and the "
    "highest of them are given. A change is against the base of its comparison. Planned numbers "
    "are predicted for an H100 at full size; their brackets hold the error that such predictions "
    "had. Brackets behind an advice count the comparisons that it rests on. Rule: docs/claims.md."
)


def is_report(entry: Entry) -> bool:
    """Return whether users reported it in a tracker, and no article claims it."""
    return entry.source == "R"


def choose_title(entries: Sequence[Entry]) -> str:
    """Return the title of a table: that of articles' claims, or that of users' reports."""
    if all(map(is_report, entries)):
        return REPORTS
    return CLAIMS


def split_by_source(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the articles' claims, then the users' reports, each if it has entries."""
    claims = [entry for entry in entries if not is_report(entry)]
    reports = [entry for entry in entries if is_report(entry)]
    return [entries for entries in (claims, reports) if entries]


def make_table(entries: Sequence[Entry]) -> Table:
    """Return a table with one row for each claim; remarks below."""
    rows = []
    for entry in entries:
        measured = describe_with_cases(entry.measured, entry.list_summarized(planned=False))
        planned = describe_with_cases(entry.planned, entry.list_summarized(planned=True))
        verdict = entry.judged
        if entry.verdict == NOT_MEASURED and entry.command:
            verdict += f": {entry.command}"
        says = f"{entry.says} ({entry.place})" if entry.place else entry.says
        claimed = f"{entry.claimed} ({entry.metric})"
        rows.append((entry.name, says, claimed, measured, planned, verdict, entry.recommendation))
    return Table.of_text(
        choose_title(entries),
        f"{CAPTION} {describe_machines(entries)}",
        COLUMNS,
        rows,
        left=len(COLUMNS),
        notes=tuple(f"{entry.name}: {entry.remark}" for entry in entries if entry.remark),
        machine=entries[0].machine,
    )


def describe_machines(entries: Sequence[Entry]) -> str:
    """Return a sentence with a table's machines, the count of each verdict, and the protocol."""
    machines = ", at full size ".join(list_machines(entries))
    protocol = entries[0].protocol
    return f"Machine {machines}: {count_verdicts(entries)}. Measured under protocol {protocol}."


def count_verdicts(entries: Sequence[Entry]) -> str:
    """Return how often each verdict was given, the most frequent first: `9 confirmed, 2 mixed`."""
    counts = Counter(entry.verdict for entry in entries)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def list_machines(entries: Sequence[Entry]) -> list[str]:
    """Return the machine of a ledger, then those whose GPUs have numbers in its verdicts."""
    gpus = set()
    for entry in entries:
        for line in entry.lines:
            if line.counts and line.on_other_gpu:
                gpus.add(line.other_machine)
    return [entries[0].machine, *sorted(gpus)]


def drop_empty_plans(
    columns: Sequence[str | TableColumn], rows: Sequence[tuple[str, ...]]
) -> tuple[Sequence[str | TableColumn], Sequence[tuple[str, ...]]]:
    """Return a table's columns and rows without the column `planned` if nothing was planned."""
    index = columns.index(PLANNED_COLUMN)
    if any(row[index] != "-" for row in rows):
        return columns, rows
    shorter_rows = [(*row[:index], *row[index + 1 :]) for row in rows]
    return (*columns[:index], *columns[index + 1 :]), shorter_rows


def describe_with_cases(number: str, lines: Sequence[Line]) -> str:
    """Return a number, followed by the cases behind it if there are any."""
    cases = describe_cases(lines)
    return f"{number}; {cases}" if cases else number


def describe_cases(lines: Sequence[Line]) -> str:
    """Return the cases behind a number: `jittor: resnet50 b8, b16/cpu; torch: unet3d b4/full`.

    A case of another machine's GPU ends in ` on MACHINE`.
    """
    batches: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for line in lines:
        on_machine = f" on {line.other_machine}" if line.on_other_gpu else ""
        for case_id in line.cases:
            case = Case.from_id(case_id)
            batches[case.framework, case.workload, f"/{case.size}{on_machine}"].add(case.batch)
    cases_by_framework: dict[str, list[str]] = defaultdict(list)
    for (framework, workload, ending), group in sorted(batches.items()):
        numbers = ", ".join(f"b{batch}" for batch in sorted(group))
        cases_by_framework[framework].append(f"{workload} {numbers}{ending}")
    texts = []
    for framework, cases in cases_by_framework.items():
        texts.append(f"{framework}: {', '.join(cases)}")
    return "; ".join(texts)


def make_list(entries: Sequence[Entry], options: str = "") -> Table:
    """Return one row for each claim, short enough to choose from; its details have the rest.

    `options` are those that a suggested command has to repeat.
    """
    rows = []
    for entry in entries:
        says = shorten(entry.says, MOST_CHARACTERS, placeholder=" ...")
        judged = shorten(entry.judged, MOST_CHARACTERS, placeholder=" ...")
        rows.append((entry.name, says, entry.measured, entry.planned, judged))
    caption = (
        "Measured and planned are medians of the comparisons that decide, with the range of their "
        "intervals, or the lowest and the highest where they disagree (mixed). One claim with its "
        "comparisons and what to do: "
        f"`framebench claims '{entries[0].name}'{options}`."
    )
    columns, shown_rows = drop_empty_plans(LIST_COLUMNS, rows)
    return Table.of_text(
        choose_title(entries),
        caption,
        columns,
        shown_rows,
        left=len(columns),
        machine=", ".join(list_machines(entries)),
    )


def make_answer(
    entry: Entry,
    device: str = "",
    options: str = "",
    choices: str = "",
    subjects: Sequence[str] = (),
) -> Table:
    """Return the verdict, for a device if one is named, and at most MOST_LINES measurements.

    What holds of the `subjects` comes first, the models and frameworks that the question named.
    `options` are those that every suggested command has to repeat, `choices` those of `framebench
    claims` alone.
    """
    lines = let_device_decide([line for line in entry.lines if line.value is not None], device)
    lines.sort(key=lambda line: (line.subjects.isdisjoint(subjects), *rank_line(line, device)))
    # the last column has the records, which an answer leaves out
    rows = [make_line_row(line)[:-1] for line in lines[:MOST_LINES]]
    hidden_count = len(entry.lines) - len(rows)
    left_out = "The remarks"
    if hidden_count:
        left_out = f"{format_count(hidden_count, 'more line')} and the remarks"
    return Table.of_text(
        describe_answer(entry, device, options, subjects),
        f"{left_out}: `framebench claims '{entry.name}' --all{choices}{options}`.",
        LINE_COLUMNS[:-1],
        rows,
        machine=", ".join(list_machines([entry])),
    )


def rank_line(line: Line, device: str) -> tuple[bool, ...]:
    """Return what lines are sorted by: first those behind the verdict, then those of the device.

    Of the others those of a GPU come first, and of these the measured ones. Without a device that
    is asked for `device` is "".
    """
    is_elsewhere = bool(device) and not is_of_device(line, device)
    return (
        not line.counts,
        is_elsewhere,
        not line.set_aside,
        line.device == "cpu",
        line.planned,
    )


def make_detail(entry: Entry, device: str = "", options: str = "") -> Table:
    """Return the answer, and all measurements of one claim, the deciding ones first.

    `options` are those that a suggested command has to repeat.
    """
    holds = "yes" if entry.transfers_to_gpu else "no"
    caption = f"Does what a CPU shows hold on a GPU? {holds}: {entry.why}."
    reasons = " ".join(entry.reasons)
    lines = let_device_decide(entry.lines, device)
    deciding_first = sorted(lines, key=lambda line: not line.decides)
    rows = [make_line_row(line) for line in deciding_first]
    remarks = [f"{line.name}: {line.remark}" for line in entry.lines if line.remark]
    return Table.of_text(
        describe_answer(entry, device, options),
        f"{caption} {reasons}",
        LINE_COLUMNS,
        rows,
        notes=tuple(remarks),
        machine=", ".join(list_machines([entry])),
    )


def describe_answer(
    entry: Entry, device: str, options: str = "", subjects: Sequence[str] = ()
) -> str:
    """Return three or four lines: the verdict and what was claimed, the claim, and what to do.

    With a `device` the verdict is the one for it, and a fourth line may say how to predict it.
    Without one `device` is "". A line on each of the `subjects` comes first,
    on frameworks if numbers are of several.
    """
    if device:
        verdict = describe_for_device(entry, device)
    else:
        numbers = entry.numbers
        verdict = f"{entry.judged[0].upper()}{entry.judged[1:]}. {numbers[0].upper()}{numbers[1:]}."
    place = f" Stands in {entry.place}." if entry.place else ""
    frameworks = {framework for line in entry.lines for framework in line.frameworks}
    lines = []
    for subject in subjects:
        if subject not in FRAMEWORKS or len(frameworks) > 1:
            lines.append(describe_for_subject(entry, subject, device))
    if lines:
        verdict = f"In all: {verdict}"
    lines += [
        f"{verdict} Claimed: {entry.claimed} ({entry.metric}).",
        f"{entry.name}: {entry.says}{place}",
        f"What to do: {entry.recommendation}",
    ]
    command = suggest_prediction(entry, device)
    if command and not has_gpu_verdict(entry, device):
        lines.append(f"Predict it for {device}: {command}{options}")
    return "\n".join(lines)


def suggest_prediction(entry: Entry, device: str) -> str:
    """Return the command that predicts a claim's cases for a device, or "".

    The two cases are written as one selector, `transformer/torch/train/{fp32,bf16}/b4/full`. There
    is no command for a device that is not in the catalog, nor for a claim that no plan of two
    cases decides.
    """
    devices = [name for name in BY_NAME if device and name.startswith(device)]
    planned = [
        line for line in entry.lines if line.planned and line.decides and len(line.cases) == 2
    ]
    if not devices or not planned:
        return ""
    base, candidate = planned[0].cases
    fields = []
    for base_field, candidate_field in zip(base.split("/"), candidate.split("/")):
        if base_field == candidate_field:
            fields.append(base_field)
        else:
            fields.append(f"{{{base_field},{candidate_field}}}")
    selector = "/".join(fields)
    return f"framebench predict '{selector}' --device {devices[0]}"


def make_line_row(line: Line) -> tuple[str, ...]:
    """Return the cells of a measurement, in the columns of LINE_COLUMNS.

    An informational one has no verdict: it is of another quantity or case than the claim.
    """
    verdict: str = line.verdict
    if line.set_aside:
        decides = "no: another device's does"
    elif line.counts:
        decides = "yes"
    elif line.decides:
        decides = "no"
    else:
        decides = "no: also shown"
        if verdict in MEASURED:
            verdict = "-"
    files = sorted({shorten_record(record) for record in line.records})
    records = f"{len(line.records)}: {', '.join(files)}" if files else "-"
    measured = "-" if line.planned else line.number
    planned = line.number if line.planned else "-"
    return line.name, decides, measured, planned, verdict, records


def shorten_record(record: str) -> str:
    """Return the release that a record is of, the machine of a program, or the file of a plan.

    For `records/xeon-2core/torch-2.13.0.jsonl:17` it is `torch-2.13.0`.
    """
    return re.sub(rf"{store.SUFFIX}:\d+$", "", Path(record).name)


def make_tables(results: Results) -> list[Table]:
    """Return the tables for documents: the ledger of each machine, and its GPU's comparisons."""
    tables = []
    for machine in results.machines:
        entries = make_ledger(results, machine)
        tables += [make_table(source_entries) for source_entries in split_by_source(entries)]
        ok_records = [record for record in results.get_records(machine) if record.status == "ok"]
        if any(get_device(record.provenance) == "gpu" for record in ok_records):
            tables.append(make_gpu_table(make_ledger(results, machine, FULL_SIZE)))
    return tables


def make_gpu_table(entries: Sequence[Entry]) -> Table:
    """Return the measurements of each claim at full size, line by line."""
    rows = []
    for entry in entries:
        for line in entry.lines:
            if line.cases and not line.planned and line.value is not None:
                rows.append((entry.name, entry.says, *make_line_row(line)))
    columns, shown_rows = drop_empty_plans(("claim", "says", *LINE_COLUMNS), rows)
    return Table.of_text(
        "Claims on a GPU, comparison by comparison",
        "At full size; the table of claims has their verdicts together. A record is one process. "
        "Of seconds a block, in which both cases take turns, is one draw: of fewer than three "
        "blocks there is no interval, and the comparison stays undecided. Added and saved bytes "
        "are of allocated ones. Rule: docs/claims.md.",
        columns,
        shown_rows,
        left=len(columns),
        machine=entries[0].machine,
    )
