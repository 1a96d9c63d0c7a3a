"""Write the pages of claims: a list for each machine, and a section for each claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from framebench.claims.ledger import Entry, make_ledger
from framebench.claims.lines import Line
from framebench.claims.numbers import format_number
from framebench.claims.plans import GPU
from framebench.claims.show import CAPTION, count_verdicts, is_report, make_detail
from framebench.publish.site.links import get_case_link, make_slug
from framebench.publish.site.machine import Machine
from framebench.publish.site.markup import THIS_FOLDER, make_table, render
from framebench.publish.site.source import Page, SourceFolder
from framebench.suite.sequences import group_by

CHART = THIS_FOLDER / "templates" / "claim_chart.json"
SHOWN = ("name", "low", "value", "high", "measured", "verdict")  # of a measurement, in its chart
CHART_CAPTION = "The line is no effect, the dashed line what is claimed: {}."
ROW_HEIGHT = 22  # pixels, of a chart with a row for each measurement


def write_claims(folder: SourceFolder, machines: Sequence[Machine]) -> str:
    """Write the pages of claims of all machines, and return the path of the first one."""
    page = Page(folder, "claims/index", "Claims")
    page.add_markdown(
        "What articles say and users report about memory, and what was measured. One rule makes "
        "the verdicts from records. The verdicts of each machine:"
    )
    page.add_contents([write_machine_claims(folder, machine) for machine in machines])
    return page.save()


def write_machine_claims(folder: SourceFolder, machine: Machine) -> str:
    """Write a machine's list of all claims, and a page for each article; return the list's path.

    The list has a row for each claim, which leads to the claim's section in its article's page.
    """
    entries = make_ledger(machine.results, machine.name)
    path = f"claims/{make_slug(machine.name)}/index"
    page = Page(folder, path, f"Claims, measured on {machine.name}")
    page.add_text(count_verdicts(entries))
    rows = []
    for entry in entries:
        link = f"{name_page(entry.source)}.html#{make_slug(entry.name)}"
        rows.append((link, entry))
    page.add_html(render("claims.html", caption=CAPTION, rows=rows))
    article_pages = []
    for article in sorted({entry.source for entry in entries}):
        article_pages.append(write_article_page(folder, machine, article, entries))
    page.add_contents(article_pages, is_hidden=True)
    return page.save()


def name_page(article: str) -> str:
    """Return the name of the page with an article's claims."""
    return f"source-{make_slug(article.lower())}"


def write_article_page(
    folder: SourceFolder, machine: Machine, article: str, entries: Sequence[Entry]
) -> str:
    """Write the page of an article's claims, a section for each, and return its path.

    The reports by users are a page like an article. `folder` is what Sphinx reads.
    """
    path = f"claims/{make_slug(machine.name)}/{name_page(article)}"
    article_entries = [entry for entry in entries if entry.source == article]
    title = f"Claims of article {article}"
    if is_report(article_entries[0]):
        title = "Reports by users"
    page = Page(folder, path, f"{title}, measured on {machine.name}")
    for entry in article_entries:
        page.add_heading(f"{entry.name}: {entry.says}")
        add_claim(page, machine, entry)
    return page.save()


def add_claim(page: Page, machine: Machine, entry: Entry) -> None:
    """Add a claim with its measurements as charts and as a table, and its records."""
    cases_by_place = machine.results.cases_by_place
    places_and_links = []
    for place in entry.records:
        case = cases_by_place.get(place, "")
        link = ""
        if case in machine.page_rows:
            link = page.root + get_case_link(machine.name, case)
        places_and_links.append((place, link))
    # the section of the claim has what the caption and the notes say
    measurements = replace(make_detail(entry), title="Measurements", caption="", notes=())
    page.add_html(
        render(
            "claim.html",
            anchor=make_slug(entry.name),
            entry=entry,
            pictures=[make_chart(lines) for lines in group_lines(entry.lines)],
            table=make_table(measurements, page.root),
            measurements=len(measurements.rows),
            records=places_and_links,
        )
    )


def group_lines(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the measurements with an interval, in a list for each metric and form of number.

    Lists with a line that is used for the verdict come first; in a list lines stay in their order.
    """
    bounded = [line for line in lines if line.is_bounded]
    groups = group_by(bounded, lambda line: (line.metric, line.form)).values()
    return sorted(groups, key=lambda group: not any(line.decides for line in group))


def make_chart(lines: Sequence[Line]) -> str:
    """Return the chart of measurements of one metric."""
    first = lines[0]
    caption = ""
    if first.claimed is not None:
        caption = CHART_CAPTION.format(format_number(first.claimed, first.form))
        if first.ours:
            caption += " This suite claims it, and no article."
    return render("chart.html", spec=draw_lines(lines), title=first.metric, caption=caption)


def draw_lines(lines: Sequence[Line]) -> dict[str, Any]:
    """Return a chart for Vega-Lite: an interval for each measurement, lines at what is claimed.

    The other line is at "no effect". All measurements are of one metric.
    """
    first = lines[0]
    bars = []
    for line in lines:
        bar = {name: getattr(line, name) for name in SHOWN}
        bar["role"] = "used for the verdict" if line.counts else "informational"
        if line.planned:
            bar["role"] = f"planned for {GPU}"
        bars.append(bar)
    marks = [{"at": first.null, "what": "no effect"}]
    if first.claimed is not None:
        marks.append({"at": first.claimed, "what": "claimed"})
    spec: dict[str, Any] = json.loads(CHART.read_text(encoding="utf-8"))
    intervals, _points, rules = spec["layer"]
    intervals["encoding"]["x"]["title"] = first.metric
    rules["data"]["values"] = marks
    return spec | {"data": {"values": bars}, "height": ROW_HEIGHT * len(bars)}
