"""Write the page of a user's model for `framebench try --html`, without Sphinx."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from framebench.analysis.figures import page
from framebench.analysis.rendering import Table
from framebench.publish.site.markup import THIS_FOLDER, make_table, render
from framebench.publish.site.target import claim_folder

STYLE = "user_page.css"


def write_user_page(
    target: Path,
    tables: Sequence[Table],
    sentences: Sequence[str],
    figure: Figure | None,
) -> Path:
    """Write the page and return its file.

    An earlier page in the folder is replaced. Raises Unbuildable if something else is there.
    """
    claim_folder(target)
    shutil.copyfile(THIS_FOLDER / "static" / STYLE, target / STYLE)
    finding = ""
    if figure is not None:
        (target / "pareto.svg").write_text(page.render_svg(figure), encoding="utf-8")
        finding, _ = page.read_finding_and_source(figure)  # the figure itself shows its source
    shown = [(table.title, make_table(table, "", is_sortable=False)) for table in tables]
    html = render("user_model.html", tables=shown, sentences=sentences, finding=finding)
    file = target / "index.html"
    # records may contain a lone surrogate, which is no reason to fail
    file.write_text(f"{html}\n", encoding="utf-8", errors="replace")
    return file
