"""Generate tables in documents: all text between `<!-- table: KEY -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from framebench.suite.selectors import suggest

BLOCK = re.compile(r"(?P<begin><!-- table: (?P<key>.+?) -->\n).*?(?P<end><!-- end -->)", re.S)


class NoSuchTable(ValueError):
    """A document asks for a table that no records give; the message lists the tables there are."""


class DocumentPart(Protocol):
    """A table, or sentences."""

    @property
    def key(self) -> str:
        """Return the name by which a document asks for it."""

    def markdown(self) -> str:
        """Return the text that the document gets."""


def refresh(text: str, tables: Iterable[DocumentPart]) -> str:
    """Return the document with each of its tables regenerated. Raises NoSuchTable."""
    by_key = {table.key: table for table in tables}

    def fill(block: re.Match[str]) -> str:
        """Return the two markers of a block with the table of its key between them."""
        key = block["key"]
        if key not in by_key:
            raise NoSuchTable(f"no table {key!r}; there are: {suggest(sorted(by_key), key, '; ')}")
        return f"{block['begin']}{by_key[key].markdown()}{block['end']}"

    return BLOCK.sub(fill, text)
