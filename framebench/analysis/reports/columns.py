"""The columns of the DataFrame that `framebench.load` returns, as a table for docs/data.md."""

from __future__ import annotations

from framebench.analysis.comparison import Comparison
from framebench.analysis.frames import COLUMNS, Column


def comparison() -> Comparison:
    """A row for each column, in the frame's order."""
    caption = "Generated from framebench/analysis/frames.py. A ratio, a share and a text have no unit."
    return Comparison.of_text("Columns of framebench.load()", caption, Column._fields, COLUMNS, left=len(Column._fields))
