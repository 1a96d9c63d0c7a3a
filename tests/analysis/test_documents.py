"""Tables are filled into documents between their marks."""

import pytest

from framebench.analysis.rendering import Table
from framebench.analysis.reports.documents import NoSuchTable, refresh

TABLE = Table.of_text("one", "caption", ("a", "b", "c"), (("1", "2", "3"),))


def test_refresh_replaces_only_text_between_the_marks():
    begin, end = "before\n<!-- table: one -->\n", "<!-- end -->\nafter"
    filled = refresh(f"{begin}old\n{end}", [TABLE])
    assert filled == f"{begin}{TABLE.markdown()}{end}"
    assert refresh(filled, [TABLE]) == filled


def test_an_unknown_table_is_answered_by_the_known_ones():
    with pytest.raises(NoSuchTable, match="one"):
        refresh("<!-- table: two -->\n<!-- end -->", [TABLE])
