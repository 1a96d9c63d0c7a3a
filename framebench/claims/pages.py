"""The pages of a machine about claims: two lists, and one page for each claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from framebench.analysis.reports.page import Page
from framebench.claims.entries import Entry
from framebench.claims.ledger import ledger
from framebench.claims.picture import LABEL, WIDTH, draw
from framebench.claims.plans import GPU
from framebench.claims.show import CAPTION, is_report, make_detail


def pages(machine: Any) -> Iterator[Page]:
    """Yield the pages of a machine of the site (`publish.site.machine.Machine`)."""
    entries = ledger(machine.results, machine.name)
    claims = [entry for entry in entries if not is_report(entry)]
    reports = [entry for entry in entries if is_report(entry)]
    yield Page("claims", "Claims", "claims/list.html", partial(describe_list, "Claims", claims))
    yield Page("reports", "Reports", "claims/list.html", partial(describe_list, "Reports", reports))
    for entry in entries:
        yield Page(
            f"claims/{file_of(entry)}",
            "",
            "claims/page.html",
            partial(describe_claim, machine, entry),
        )


def file_of(entry: Entry) -> str:
    """Return the name of a claim's page without the ending: `b2-memory`."""
    return entry.name.lower().replace(" ", "-")


def describe_list(title: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what the template of a list asks for."""
    verdicts = Counter(entry.verdict for entry in entries).most_common()
    return {
        "heading": title,
        "entries": entries,
        "verdicts": verdicts,
        "file_of": file_of,
        "caption": CAPTION,
    }


def describe_claim(machine: Any, entry: Entry) -> dict[str, Any]:
    """Return what the template of a claim asks for.

    Its measurements as bars and as a table, and the records: the file and line, and the case if the
    machine has a page of it.
    """
    cases = machine.results.cases_by_place
    records = []
    for file in entry.records:
        case = cases.get(file, "")
        records.append((file, case if case in machine.page_rows else ""))
    return {
        "entry": entry,
        "arms": make_detail(entry),
        "records": records,
        "back": "reports" if is_report(entry) else "claims",
        "pictures": draw(entry.lines),
        "scale": WIDTH,
        "label": LABEL,
        "card": GPU,
    }
