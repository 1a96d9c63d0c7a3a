"""Tables are filled into documents between their marks."""

from __future__ import annotations

import pytest

from framebench.analysis.rendering import Table
from framebench.analysis.reports.documents import NoSuchTable, refresh

TABLE = Table.of_text("one", "caption", ("a", "b", "c"), (("1", "2", "3"),))
DOCUMENT = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter"


def test_a_table_replaces_what_is_between_its_marks() -> None:
    filled = refresh(DOCUMENT, [TABLE])
    before, between = filled.split("<!-- table: one -->\n")
    assert before == "before\n"
    assert between == f"{TABLE.markdown()}<!-- end -->\nafter"


def test_refreshing_twice_changes_nothing() -> None:
    filled = refresh(DOCUMENT, [TABLE])
    assert refresh(filled, [TABLE]) == filled


def test_an_unknown_table_is_answered_by_the_known_ones() -> None:
    with pytest.raises(NoSuchTable, match="one"):
        refresh("<!-- table: two -->\n<!-- end -->", [TABLE])
