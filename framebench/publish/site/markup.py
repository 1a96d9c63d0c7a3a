"""Escape what records say, and render templates: nothing from a record is ever markup.

A page reaches Sphinx as Markdown. `escape_markdown` is for text among it; everything longer is HTML
that a template made with automatic escaping, in a file that Sphinx copies without reading.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from framebench.analysis.rendering import Table
from framebench.publish.site.links import get_case_link
from framebench.publish.site.titles import get_verdict_class

THIS_FOLDER = Path(__file__).parent
# CommonMark: any of these means itself behind a backslash
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
NUMBER = re.compile(r"[~+-]?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
LAST = "1e308"  # the sort key of a cell without a number, in a column of numbers
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
SORTABLE_ROWS = 2  # from so many rows on


def escape_markdown(text: str) -> str:
    """Return Markdown that shows this text in one line, whatever is in it."""
    return PUNCTUATION.sub(r"\\\1", flatten(text))


def flatten(text: str) -> str:
    """Return the text in one line, without control characters and lone surrogates."""
    encodable = text.encode("utf-8", errors="replace").decode("utf-8")
    return " ".join(CONTROL.sub(" ", encodable).split())


def find_order(text: str) -> str:
    """Return the number that a cell of a column of numbers is sorted by.

    The number is the first in its text: 1234.5 of `1,234.5 tokens/s`. Cells without a number come
    last.
    """
    match = NUMBER.match(text)
    return match[0].replace(",", "").replace("~", "") if match else LAST


ENVIRONMENT = Environment(
    loader=FileSystemLoader(THIS_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["find_order"] = find_order
ENVIRONMENT.globals["get_verdict_class"] = get_verdict_class


def render(template: str, **context: object) -> Markup:
    """Return a template as HTML."""
    return Markup(ENVIRONMENT.get_template(template).render(context))


def make_table(table: Table, root: str, *, is_sortable: bool = True) -> Markup:
    """Return a table with its caption and notes, whose rows lead to their cases, if they have any.

    `root` leads from the page to the folder of the site. Where scripts run, DataTables sorts and
    searches what is sortable.
    """
    links = []
    if table.machine:
        links = [root + get_case_link(table.machine, case) for case in table.cases]
    return render(
        "table.html",
        table=table,
        links=links,
        is_sortable=is_sortable and len(table.rows) >= SORTABLE_ROWS,
    )
