"""Write the pages of claims: a list for each machine, and a section for each claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from framebench.analysis.rendering import Table
from framebench.claims.ledger import Entry, ledger
from framebench.claims.lines import Line
from framebench.claims.numbers import format_number
from framebench.claims.show import CAPTION, is_report, make_detail
from framebench.publish.site import charts
from framebench.publish.site.html_tables import make_table
from framebench.publish.site.links import get_case_link, make_slug
from framebench.publish.site.machine import Machine
from framebench.publish.site.markup import render
from framebench.publish.site.source import Page, SourceFolder

CHART_CAPTION = "The line is no effect, the dashed line what is claimed: {}."


def write_claims(source: SourceFolder, machines: Sequence[Machine]) -> str:
    """Write the pages of claims of all machines, and return the path of the first one."""
    page = Page(source, "claims/index", "Claims")
    page.add_markdown(
        "What articles say and users report about memory, and what was measured. One rule makes "
        "the verdicts from records. The verdicts of each machine:"
    )
    page.add_contents([write_machine_claims(source, machine) for machine in machines])
    return page.save()


def write_machine_claims(source: SourceFolder, machine: Machine) -> str:
    """Write the list of all claims as one machine has measured them, and the pages of sections."""
    entries = ledger(machine.results, machine.name)
    folder = f"claims/{make_slug(machine.name)}"
    page = Page(source, f"{folder}/index", f"Claims, measured on {machine.name}")
    verdicts = Counter(entry.verdict for entry in entries).most_common()
    page.add_text(", ".join(f"{count} {verdict}" for verdict, count in verdicts))
    page.add_html(render("claims.html", caption=CAPTION, rows=list_rows(entries)))
    sources = sorted({entry.source for entry in entries})
    page.add_contents(
        [write_source(source, machine, name, entries) for name in sources], is_hidden=True
    )
    return page.save()


def list_rows(entries: Sequence[Entry]) -> list[tuple[str, Entry]]:
    """Return the rows of the list: where each claim's section is, and the claim."""
    return [(f"{name_page(entry.source)}.html#{make_slug(entry.name)}", entry) for entry in entries]


def name_page(source_name: str) -> str:
    """Return the name of the page with a source's claims."""
    return f"source-{make_slug(source_name.lower())}"


def write_source(
    source: SourceFolder, machine: Machine, source_name: str, entries: Sequence[Entry]
) -> str:
    """Write the page of one source's claims, a section for each."""
    path = f"claims/{make_slug(machine.name)}/{name_page(source_name)}"
    of_source = [entry for entry in entries if entry.source == source_name]
    kind = "Reports by users" if is_report(of_source[0]) else f"Claims of article {source_name}"
    page = Page(source, path, f"{kind}, measured on {machine.name}")
    for entry in of_source:
        page.add_heading(f"{entry.name}: {entry.says}")
        add_claim(page, machine, entry)
    return page.save()


def add_claim(page: Page, machine: Machine, entry: Entry) -> None:
    """Add a claim with its measurements as charts and as a table, and its records."""
    cases = machine.results.cases_by_place
    records = []
    for place in entry.records:
        case = cases.get(place, "")
        link = page.root + get_case_link(machine.name, case) if case in machine.page_rows else ""
        records.append((place, link))
    measurements = make_detail(entry)
    page.add_html(
        render(
            "claim.html",
            anchor=make_slug(entry.name),
            entry=entry,
            pictures=[make_chart(lines) for lines in group_lines(entry.lines)],
            table=make_table(without_title(measurements), page.root),
            measurements=len(measurements.rows),
            records=records,
        )
    )


def without_title(table: Table) -> Table:
    """Return a claim's table for its section, which says everything else itself."""
    return replace(table, title="Measurements", caption="", notes=())


def group_lines(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the measurements with an interval by metric and form.

    The groups of lines that are used for the verdict come first; within a group lines stay in their
    order.
    """
    deciding_first = sorted(lines, key=lambda line: not line.decides)
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in deciding_first:  # this fixes the order of the groups alone
        groups.setdefault((line.metric, line.form), [])
    for line in lines:
        if line.is_bounded:
            groups[line.metric, line.form].append(line)
    return [group for group in groups.values() if group]


def make_chart(lines: Sequence[Line]) -> str:
    """Return the chart of measurements of one metric."""
    first = lines[0]
    caption = ""
    if first.claimed is not None:
        claimed = format_number(first.claimed, first.form)
        caption = CHART_CAPTION.format(claimed)
        if first.ours:
            caption += " This suite claims it, and no article."
    return charts.make_figure(charts.draw_claim(lines), first.metric, caption)
