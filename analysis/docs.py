"""Tables inside documents: everything between `<!-- table: TITLE -->` and `<!-- end -->` is generated, never typed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.tables import Comparison, markdown

BLOCK = re.compile(r"(<!-- table: (?P<title>.+?) -->\n).*?(<!-- end -->)", re.S)


class NoSuchTable(ValueError):
    """A document asks for a table that the records do not give; the message lists those they do."""


def refresh(text: str, tables: Iterable[Comparison]) -> str:
    """The document with each of its tables made anew. Raises NoSuchTable."""
    by_title = {table.title: table for table in tables}

    def fill(block: re.Match[str]) -> str:
        title = block["title"]
        if title not in by_title:
            raise NoSuchTable(f"no table {title!r}; there are: {'; '.join(sorted(by_title))}")
        return f"{block[1]}{markdown(by_title[title])}{block[3]}"

    return BLOCK.sub(fill, text)
