"""The pages of a machine about claims: a list of the articles', a list of the trackers', and one page for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from framebench.analysis.reports.page import Page
from framebench.claims.entries import Entry
from framebench.claims.ledger import ledger
from framebench.claims.picture import LABEL, WIDTH, pictures
from framebench.claims.plans import CARD
from framebench.claims.show import CAPTION, detail, of_articles, of_trackers

LISTS = (("claims", "Claims", of_articles), ("reports", "Reports", of_trackers))


def pages(machine: Any) -> Iterator[Page]:
    entries = ledger(machine.results, machine.name)
    for name, title, chosen in LISTS:
        yield Page(name, title, "claims/list.html", partial(_list, title, chosen(entries)))
    for entry in entries:
        yield Page(f"claims/{file_of(entry)}", "", "claims/page.html", partial(_claim, machine, entry))


def file_of(entry: Entry) -> str:
    """`b2-memory`: of its page, without the ending."""
    return entry.name.lower().replace(" ", "-")


def _list(title: str, entries: Sequence[Entry]) -> dict[str, Any]:
    verdicts = Counter(entry.verdict for entry in entries).most_common()
    return {"heading": title, "entries": entries, "verdicts": verdicts, "file_of": file_of, "caption": CAPTION}


def _claim(machine: Any, entry: Entry) -> dict[str, Any]:
    """The arms as bars and as a table, and the records: the file, and the case if the machine has a page of it."""
    cases = {case.replace("/", "."): case for case in machine.with_a_page}
    records = [(file, cases.get(PurePosixPath(file).parent.name, "")) for file in entry.records]
    drawn = {"pictures": pictures(entry.lines), "scale": WIDTH, "label": LABEL, "card": CARD}
    back = "reports" if entry.source == "R" else "claims"
    return {"entry": entry, "arms": detail(entry), "records": records, "back": back, **drawn}
