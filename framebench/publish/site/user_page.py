"""Write the page of a user's model: what `framebench try --html` makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from framebench.analysis.figures import page
from framebench.analysis.rendering import Table
from framebench.publish.site.writer import Writer, prepare_folder


def write_user_page(
    target: Path,
    tables: Sequence[Table],
    sentences: Sequence[str],
    figure: Figure | None,
) -> Path:
    """Write the page and return its file.

    An earlier page in the folder is replaced. Raises Unbuildable if something else is there.
    """
    prepare_folder(target)
    writer = Writer(target)
    finding = ""
    if figure is not None:
        writer.write_file("pareto.svg", page.render_svg(figure))
        finding, _ = page.read_finding_and_source(figure)  # the figure itself shows its source
    writer.write_page(
        "index.html",
        "user_model.html",
        tables=tables,
        sentences=sentences,
        finding=finding,
    )
    return target / "index.html"
