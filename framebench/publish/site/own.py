"""The page of a model of the user's own: what `framebench try --html` writes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from framebench.analysis.comparison import Comparison
from framebench.analysis.figures import page
from framebench.publish.site.writer import THIS_FOLDER, Writer, empty


def write(target: Path, tables: Sequence[Comparison], sentences: Sequence[str], figure: Figure | None) -> Path:
    """Its file. A page of ours that is in the folder is replaced. Raises Unbuildable if something else is there."""
    empty(target)
    shutil.copytree(THIS_FOLDER / "static", target / "static")
    writer, finding = Writer(target), ""
    if figure is not None:
        writer.file("pareto.svg", page.svg(figure))
        finding, _ = page.finding_and_source(figure)  # the picture itself says where it comes from
    writer.page("index.html", "own.html", tables=tables, sentences=sentences, finding=finding)
    return target / "index.html"
