"""Make HTML of a table. DataTables sorts and searches it, where scripts run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from markupsafe import Markup

from framebench.analysis.rendering import Table
from framebench.publish.site.links import get_case_link
from framebench.publish.site.markup import NUMBER, find_order, render

STATUSES = ("oom", "timeout", "crashed", "unsupported", "wrong")
SORTABLE_ROWS = 2  # from so many rows on
STRATEGY = 1  # the column that leads to the page of a row's case


@dataclass(frozen=True)
class Cell:
    """A cell: its text, what it is sorted by, where it leads, and how it looks."""

    text: str
    order: str = ""
    link: str = ""
    css_class: str = ""


def make_table(
    table: Table,
    root: str,
    cases: Collection[str] | None = None,
    *,
    is_sortable: bool = True,
) -> Markup:
    """Return a table with its caption and notes.

    Args:
        table: Whose rows lead to their cases, where it names them.
        root: What leads from the page to the folder of the site.
        cases: That have a page; by default all.
        is_sortable: Whether DataTables takes it over.
    """
    numeric = find_number_columns(table)
    rows = []
    for place, texts in enumerate(table.rows):
        cells = []
        for column, text in enumerate(texts):
            link = find_link(table, place, column, root, cases)
            order = find_order(text) if numeric[column] else ""
            cells.append(Cell(text, order, link, choose_class(text, numeric[column])))
        rows.append(cells)
    return render(
        "table.html",
        table=table,
        head=list(zip(table.shown.values(), numeric)),
        rows=rows,
        is_sortable=is_sortable and len(rows) >= SORTABLE_ROWS,
    )


def find_link(table: Table, row: int, column: int, root: str, cases: Collection[str] | None) -> str:
    """Return where a cell leads: that of the strategy to the row's case, others nowhere."""
    if column != STRATEGY or not table.cases or not table.machine:
        return ""
    case = table.cases[row]
    if cases is not None and case not in cases:
        return ""
    return root + get_case_link(table.machine, case)


def find_number_columns(table: Table) -> list[bool]:
    """Return for each column whether it is aligned right: it is no label, and has a number."""
    has_number = [False] * len(table.head)
    for row in table.rows:
        for place, cell in enumerate(row):
            if place >= table.left and NUMBER.match(cell):
                has_number[place] = True
    return has_number


def choose_class(text: str, is_number: bool) -> str:
    """Return the CSS class of a cell."""
    if text in STATUSES:
        return f"status {text}"
    if text == "NO":
        return "no"
    return "number" if is_number else ""
