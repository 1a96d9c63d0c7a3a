"""Render templates into files. Everything that comes from records is escaped."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from framebench.analysis.rendering import Table
from framebench.publish.site import drawing
from framebench.publish.site.links import get_case_page, get_machine_folder, make_anchors
from framebench.publish.site.titles import (
    get_title,
    get_verdict_class,
    make_case_title,
    make_figure_title,
)
from framebench.records.provenance import PACKAGE

THIS_FOLDER = Path(__file__).parent
STATUSES = ("oom", "timeout", "crashed", "unsupported", "wrong")
NUMBER = re.compile(r"[+-]?\d")
# a file in every folder that a site was written to; no other folder is ever emptied
MARK = ".framebench-site"


class Unbuildable(ValueError):
    """There is nothing to show, or the target holds something else; the message says what to do."""


def find_number_columns(table: Table) -> list[bool]:
    """Return for each column whether it is aligned right: it is no label, and has a number."""
    has_number = [False] * len(table.head)
    for row in table.rows:
        for place, cell in enumerate(row):
            if place >= table.left and NUMBER.match(cell):
                has_number[place] = True
    return has_number


def format_significant(value: float) -> str:
    """Return six significant figures, and all before the point: 480,709,000 and 0.0123457."""
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


# what templates call
HELPERS = {
    "get_machine_folder": get_machine_folder,
    "get_case_page": get_case_page,
    "make_anchors": make_anchors,
    "find_number_columns": find_number_columns,
    "get_verdict_class": get_verdict_class,
    "get_title": get_title,
    "make_case_title": make_case_title,
    "WIDTH": drawing.WIDTH,
    "HEIGHT": drawing.HEIGHT,
    "STATUSES": STATUSES,
}
FILTERS = {"format_significant": format_significant, "make_figure_title": make_figure_title}


def prepare_folder(target: Path) -> None:
    """Make an empty folder with the style sheet and the scripts, marked as a site of framebench.

    An earlier site in the folder is removed. Raises Unbuildable if something else is there.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        if not (target / MARK).exists():
            raise Unbuildable(
                f"{target} exists and holds no framebench site; remove it, or name another folder",
            )
        shutil.rmtree(target)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).write_text(
        "written by framebench report --html; the next one replaces this folder\n",
    )
    shutil.copytree(THIS_FOLDER / "static", target / "static")


@dataclass
class Writer:
    """Renders templates into the folder `target`. `common` is what every page's template gets."""

    target: Path
    common: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = Environment(
            loader=FileSystemLoader([THIS_FOLDER / "templates", PACKAGE]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters.update(FILTERS)
        self.environment.globals.update(HELPERS)

    def write_page(self, path: str, template: str, **context: object) -> None:
        """Render a template into a file.

        In it `path` is the page's own, and `root` leads from the page back to the site's folder.
        """
        root = "../" * path.count("/")
        values = self.common | context | {"root": root, "path": path}
        self.write_file(path, self.environment.get_template(template).render(values))

    def write_file(self, path: str, text: str) -> None:
        """Write a text into a file below the site's folder."""
        file = self.target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # records may contain a lone surrogate, which is no reason to fail
        file.write_text(text, encoding="utf-8", errors="replace")
