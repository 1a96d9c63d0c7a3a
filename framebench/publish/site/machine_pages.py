"""Write the pages of a machine: its summary, workloads, cases, versions and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from framebench.analysis import tables
from framebench.analysis.batch_tables import make_batch_tables
from framebench.analysis.breakdown import make_part_tables
from framebench.analysis.frames import COLUMNS
from framebench.analysis.rendering import Table, TableColumn, format_mib, is_missing
from framebench.analysis.reports.answer import make_answer
from framebench.explain.table import load_causes
from framebench.models import spec
from framebench.publish.site.links import get_case_page, get_machine_folder, make_slug
from framebench.publish.site.machine import Machine
from framebench.publish.site.markup import make_table, render
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.titles import get_title
from framebench.records.record import Record
from framebench.suite.sequences import group_by
from framebench.versions.judge import compare_successive, make_release_blocks
from framebench.versions.table import describe_changes
from framebench.versions.table import make_table as make_version_table

if TYPE_CHECKING:
    from framebench.analysis.figures import Picture

# columns of the table of all cases; the section of a case has the others
PLACES = ("framework", "strategy", "workload", "scenario", "batch", "size", "framework_version")
NUMBERS = ("shared_bytes", "relative_peak", "step_time_s", "relative", "effect_proven")


def write_machine(source: SourceFolder, machine: Machine, pictures: Iterable[Picture]) -> str:
    """Write the pages of a machine, and return the path of its first one.

    The figures are written last, since they may still be drawn.
    """
    page = Page(source, f"{get_machine_folder(machine.name)}/index", machine.name)
    page.add_text(tables.describe_conditions(machine.shown))
    page.add_tables(make_answer(machine.shown), *tables.make_framework_tables(machine.shown))
    subpages = list(write_workloads(source, machine))
    subpages.append(write_all_cases(source, machine))
    subpages += write_versions(source, machine)
    subpages += write_figures(source, machine, pictures)
    page.add_contents(subpages, is_hidden=True)
    return page.save()


def write_workloads(source: SourceFolder, machine: Machine) -> Iterator[str]:
    """Write a page for each workload with every table of it, and yield their paths."""
    in_use = tables.select_in_use(machine.shown)
    for workload in spec.list_workloads():
        rows = in_use[in_use["workload"] == workload]
        if rows.empty:
            continue
        path = f"{get_machine_folder(machine.name)}/{workload}"
        page = Page(source, path, f"{get_title(workload)} on {machine.name}")
        for table in (*tables.make_strategy_tables(rows), *make_batch_tables(rows)):
            if not table.is_short:
                page.add_tables(table)
        page.add_tables(*make_part_tables(rows))
        yield page.save()


def write_all_cases(source: SourceFolder, machine: Machine) -> str:
    """Write one table of all cases, and a page about each; return the path of the table's page."""
    columns = {name: TableColumn(name.removeprefix("framework_")) for name in PLACES}
    numbers = {name: tables.SHOWN[name] for name in NUMBERS}
    table = Table(
        "All cases",
        "One record per case and version: the current one. "
        f"{tables.describe_instruments(machine.table)} A strategy leads to the section of its "
        "case, which has everything that its record says.",
        tables.make_cells(machine.table),
        columns | tables.select_columns(machine.table, numbers),
        left=len(columns),
        machine=machine.name,
        cases=tuple(machine.table["case"]),
    )
    path = f"{get_machine_folder(machine.name)}/cases"
    page = Page(source, path, f"All cases on {machine.name}")
    page.add_html(make_table(table, page.root))
    page.add_contents(write_cases(source, machine), is_hidden=True)
    return page.save()


def write_cases(source: SourceFolder, machine: Machine) -> Iterator[str]:
    """Write a page for each workload, scenario and framework, and yield the pages' paths.

    A page has a section for each case, which shows the record that counts, and all records of the
    case as its history.
    """
    records = group_by(machine.records, lambda record: record.case)
    cases_by_page = group_by(machine.page_rows, lambda case: get_case_page(machine.name, case))
    for path, cases in cases_by_page.items():
        workload, framework, scenario, *_ = cases[0].split("/")
        title = ", ".join(map(get_title, (workload, framework, scenario)))
        page = Page(source, path, f"{title} on {machine.name}")
        for case in cases:
            add_case(page, case, machine.page_rows[case], records[case])
        yield page.save()


def add_case(page: Page, case: str, row: pd.Series, records: list[Record]) -> None:
    """Add the section of a case: its numbers, the record they are from, and all its records."""
    moment = row["measured_at"]
    record = next(each for each in records if each.provenance.measured_at == moment)
    tables_of_case = [make_numbers_table(row), make_record_table(record)]
    if len(records) > 1:
        tables_of_case.append(make_history_table(records))
    sections = []
    for table in tables_of_case:
        html = make_table(table, page.root, is_sortable=False)
        sections.append((table.title, html))
    page.add_heading(case)
    page.add_html(
        render(
            "case.html",
            anchor=make_slug(case),
            record=record,
            case=record.parsed,
            sections=sections,
        )
    )


def make_numbers_table(row: pd.Series) -> Table:
    """Return the numbers of a row of `framebench.load()`, with their meanings."""
    rows = []
    for column in COLUMNS:
        value = row[column.name]
        if "int" in column.dtype.lower() or "float" in column.dtype:
            if is_missing(value):
                continue
            text = f"{value:,.6g} {column.unit}"
            if column.unit == "bytes":
                text = f"{format_mib(value, ',.2f')} MiB"
            rows.append((column.name, text, column.meaning))
    caption = (
        "The columns of framebench.load(), where this case has a number. Ratios are to the "
        "baseline of the same framework, batch and machine. MiB = 2^20 bytes."
    )
    return Table.of_text("Numbers", caption, ("column", "value", "meaning"), rows, left=3)


def make_record_table(record: Record) -> Table:
    """Return everything that the record says, a row for each of its fields."""
    fields = record.model_dump(mode="json", exclude={"log_tail"})
    (flat,) = pd.json_normalize(fields, sep=": ").to_dict("records")
    rows = []
    for name, value in flat.items():
        text = format_field(value)
        if text:
            rows.append((str(name), text))
    caption = "As its line under results/records has it; what is empty is left out."
    return Table.of_text("The record", caption, ("field", "value"), rows)


def make_history_table(case_records: list[Record]) -> Table:
    """Return every record of the case on this machine, in the order given."""
    rows = []
    for record in case_records:
        provenance = record.provenance
        rows.append(
            (
                f"{provenance.measured_at:%Y-%m-%d %H:%M:%S}",
                record.framework_version or "-",
                (provenance.commit or "unknown")[:10],
                str(provenance.protocol),
                record.status,
                format_mib(record.peak_bytes, ",.2f"),
                format_field(record.step_time_s) or "-",
            )
        )
    return Table.of_text(
        "History",
        "All records of this case on this machine, newest first; numbers of different protocols "
        "are not comparable.",
        ("measured (UTC)", "version", "commit", "protocol", "status", "peak MiB", "step s"),
        rows,
        left=5,
    )


def format_field(value: object) -> str:
    """Return any JSON value in one line, or "" for a missing one."""
    if is_missing(value):
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value) if isinstance(value, bool) else f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {format_field(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(format_field, value))
    return str(value)


def write_versions(source: SourceFolder, machine: Machine) -> list[str]:
    """Write the page that compares each version with the one before it, if there are several.

    Return the path of the page in a list, or an empty list.
    """
    blocks = make_release_blocks(machine.results.get_records(machine.name))
    comparisons = list(compare_successive(machine.records, blocks))
    if not comparisons:
        return []
    path = f"{get_machine_folder(machine.name)}/versions"
    page = Page(source, path, f"Framework versions on {machine.name}")
    page.add_markdown("The same for any two: `framebench versions compare`.")
    find_cause = load_causes(machine.results.root)
    for rows in comparisons:
        page.add_text(describe_changes(rows))
        page.add_tables(make_version_table(rows, find_cause))
    return [page.save()]


def write_figures(source: SourceFolder, machine: Machine, pictures: Iterable[Picture]) -> list[str]:
    """Write the figures of a machine and the page that shows them, if there are any.

    Return the path of the page in a list, or an empty list.
    """
    folder = get_machine_folder(machine.name)
    page = Page(source, f"{folder}/figures", f"Figures of {machine.name}")
    for picture in pictures:
        title = ", ".join(map(get_title, picture.name.split("-")))
        file = f"figures/{make_slug(machine.name)}/{make_slug(picture.name)}.svg"
        source.write(f"assets/{file}", picture.svg)
        page.add_heading(title)
        link = f"{page.root}_static/{file}"  # Sphinx copies `assets` to `_static`
        page.add_html(render("figure.html", file=link, title=title, picture=picture))
    return [page.save()] if page.parts else []
