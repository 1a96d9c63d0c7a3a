"""Tables are filled into documents between their marks."""

from __future__ import annotations

import pytest

from framebench.analysis.comparison import Comparison
from framebench.analysis.reports.documents import NoSuchTable, refresh

TABLE = Comparison.of_text("one", "caption", ("a", "b", "c"), (("1", "2", "3"),))


def test_blocks_are_filled_and_everything_else_stays() -> None:
    text = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter"
    filled = refresh(text, [TABLE])
    assert "old" not in filled
    assert "| 1 | 2 | 3 |" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("\nafter")
    assert refresh(filled, [TABLE]) == filled


def test_an_unknown_table_is_answered_by_the_known_ones() -> None:
    with pytest.raises(NoSuchTable, match="one"):
        refresh("<!-- table: two -->\n<!-- end -->", [TABLE])
