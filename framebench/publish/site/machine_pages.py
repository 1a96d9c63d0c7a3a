"""Write the pages of a machine: its summary, workloads, cases, figures, claims and versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from framebench.analysis import breakdown, tables
from framebench.analysis.batch_tables import make_batch_tables
from framebench.analysis.part_tables import make_part_tables
from framebench.publish.readme.stands_out import describe_machine
from framebench.publish.site import casepage, charts
from framebench.publish.site.html_tables import make_table
from framebench.publish.site.links import get_case_page, get_machine_folder, make_slug
from framebench.publish.site.machine import Machine, make_case_table
from framebench.publish.site.markup import render
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.titles import (
    SCENARIO_ORDER,
    figure_sort_key,
    get_figure_subject,
    get_title,
    make_figure_title,
)
from framebench.records.record import Record
from framebench.versions.table import describe_changes

if TYPE_CHECKING:
    from framebench.analysis.figures import Picture

CHART_CAPTION = (
    "Each framework against its own baseline, by one instrument. Up and left is better. Point at a "
    "mark for its numbers; it leads to its case."
)
SHORT = ", in short"  # tables with a part of another's rows, for documents
DOUBTS = {
    1: "Its instruments were not calibrated.",
    2: "The calibration of its instruments failed.",
}


def write_machine(source: SourceFolder, machine: Machine, pictures: Iterable[Picture]) -> str:
    """Write the pages of a machine, and return the path of its first one.

    The figures are written last, since they may still be drawn.
    """
    folder = get_machine_folder(machine.name)
    page = Page(source, f"{folder}/index", machine.name)
    page.add_text(machine.summary)
    if machine.doubt:
        page.add_text(DOUBTS[machine.doubt])
    page.add_tables([*machine.headlines, *machine.side_by_side])
    findings = describe_machine(machine.shown)
    if findings:
        page.add_heading("What stands out")
        # made of the catalog's names and of numbers alone
        page.add_markdown("\n".join(f"- {finding}" for finding in findings))
    page.add_table(machine.facts, is_sortable=False)
    below = []
    for workload in machine.workloads:
        below.append(write_workload(source, machine, workload))
        below += write_behind(source, machine, workload)
    below.append(write_all_cases(source, machine))
    below += write_versions(source, machine)
    below += write_figures(source, machine, pictures)
    page.add_contents(below, is_hidden=True)
    return page.save()


def write_workload(source: SourceFolder, machine: Machine, workload: str) -> str:
    """Write a page with a chart of each scenario and a table of each scenario and batch."""
    folder = get_machine_folder(machine.name)
    page = Page(source, f"{folder}/{workload}", f"{get_title(workload)} on {machine.name}")
    rows = tables.select_in_use(machine.shown[machine.shown["workload"] == workload])
    for scenario in SCENARIO_ORDER:
        compared = charts.select_scenario(rows, scenario)
        if len(compared):
            points = charts.make_points(compared, page.root)
            title = f"{get_title(workload)}, {get_title(scenario).lower()}: memory and speed"
            batch = f"Batch {compared['batch'].iloc[0]}, size {compared['size'].iloc[0]}."
            page.add_heading(title)
            figure = charts.make_figure(
                charts.draw_strategies(points), title, f"{batch} {CHART_CAPTION}"
            )
            page.add_html(figure)
    for table in (*tables.make_strategy_tables(rows), *make_batch_tables(rows)):
        if not table.title.endswith(SHORT):
            page.add_table(table)
    return page.save()


def write_behind(source: SourceFolder, machine: Machine, workload: str) -> list[str]:
    """Write a page of what stands behind a workload's numbers, if there is anything."""
    rows = tables.select_in_use(machine.shown[machine.shown["workload"] == workload])
    behind = [*tables.make_framework_tables(rows), *make_part_tables(rows)]
    if not behind:
        return []
    path = f"{get_machine_folder(machine.name)}/{workload}-behind"
    page = Page(source, path, f"{get_title(workload)} on {machine.name}, behind the numbers")
    page.add_markdown("What peaks consist of, what was predicted, and checks.")
    page.add_tables(behind)
    return [page.save()]


def write_all_cases(source: SourceFolder, machine: Machine) -> str:
    """Write one table of all cases, and the pages that say everything about each."""
    path = f"{get_machine_folder(machine.name)}/cases"
    page = Page(source, path, f"All cases on {machine.name}")
    page.add_markdown("Strategies lead to what is known of their case.")
    page.add_html(make_table(make_case_table(machine), page.root))
    page.add_contents(write_cases(source, machine), is_hidden=True)
    return page.save()


def write_cases(source: SourceFolder, machine: Machine) -> list[str]:
    """Write a page for each workload, scenario and framework, with a section for each case.

    A section is of the record that counts, with all others as its history.
    """
    bounds: dict[tuple[object, object], pd.Series] = {}
    for _, bound in breakdown.split_peaks(machine.table).iterrows():
        bounds[bound["case"], bound["measured_at"]] = bound
    cases_by_page: dict[str, list[str]] = {}
    for case in machine.page_rows:
        cases_by_page.setdefault(get_case_page(machine.name, case), []).append(case)
    written = []
    for path, cases in cases_by_page.items():
        workload, framework, scenario, *_ = cases[0].split("/")
        title = ", ".join(map(get_title, (workload, framework, scenario)))
        page = Page(source, path, f"{title} on {machine.name}")
        for case in cases:
            row = machine.page_rows[case]
            record = find_record(machine.records_by_case[case], row)
            lower_bound = bounds.get((case, row["measured_at"]))
            add_case(page, machine, record, row, lower_bound)
        written.append(page.save())
    return written


def add_case(
    page: Page, machine: Machine, record: Record, row: pd.Series, bound: pd.Series | None
) -> None:
    """Add everything about a case to a page."""
    case_records = machine.records_by_case[record.case]
    sections = casepage.make_sections(record, case_records, row, bound)
    tables_of_case = []
    for section in sections:
        tables_of_case.append((section.title, make_table(section, page.root, is_sortable=False)))
    steps_s = casepage.list_timed_steps(record, case_records)
    page.add_heading(record.case)
    page.add_html(
        render(
            "case.html",
            anchor=make_slug(record.case),
            record=record,
            case=record.parsed,
            sections=tables_of_case,
            steps_ms=[f"{seconds * 1e3:,.2f}" for seconds in steps_s],
        )
    )


def find_record(case_records: list[Record], row: pd.Series) -> Record:
    """Return the record that a row of the machine's table was made of."""
    for record in case_records:
        if record.provenance.measured_at == row["measured_at"]:
            return record
    raise LookupError(f"no record of {row['case']} at {row['measured_at']}")


def write_versions(source: SourceFolder, machine: Machine) -> list[str]:
    """Write the page of each version against the one before it, where both have a case."""
    if not machine.version_changes:
        return []
    path = f"{get_machine_folder(machine.name)}/versions"
    page = Page(source, path, f"Framework versions on {machine.name}")
    page.add_markdown("The same for any two: `framebench versions compare`.")
    for compared in machine.version_changes:
        page.add_text(describe_changes(compared))
    page.add_tables(machine.version_tables)
    return [page.save()]


def write_figures(source: SourceFolder, machine: Machine, pictures: Iterable[Picture]) -> list[str]:
    """Write the figures of a machine and the page that shows them."""
    folder = get_machine_folder(machine.name)
    page = Page(source, f"{folder}/figures", f"Figures of {machine.name}")
    subjects: dict[str, list[Picture]] = {}
    for picture in sorted(pictures, key=lambda picture: figure_sort_key(picture.name)):
        if picture.name != "support":  # the reference has the same as tables
            subjects.setdefault(get_figure_subject(picture.name), []).append(picture)
    for subject, of_subject in subjects.items():
        page.add_heading(subject or "All workloads")
        for picture in of_subject:
            file = f"_static/figures/{make_slug(machine.name)}/{make_slug(picture.name)}.svg"
            source.write(f"assets/{file.removeprefix('_static/')}", picture.svg)
            figure = render(
                "figure.html",
                file=page.root + file,
                title=make_figure_title(picture.name),
                picture=picture,
            )
            page.add_html(figure)
    return [page.save()] if subjects else []
