"""Templates to files: everything from records is escaped, and what the templates ask for is here."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from framebench.analysis.comparison import Comparison
from framebench.publish.site import drawn
from framebench.publish.site.links import anchors, case_page, machine_folder
from framebench.publish.site.titles import case_title, figure_title, title, verdict_class
from framebench.records.provenance import PACKAGE

THIS_FOLDER = Path(__file__).parent
STATUSES = ("oom", "timeout", "crashed", "unsupported", "wrong")
NUMBER = re.compile(r"[+-]?\d")
MARK = ".framebench-site"  # lies in every folder that a site was written to; no other is ever emptied


class Unbuildable(ValueError):
    """There is nothing to show, or the target holds something else; the message says what to do."""


def numbers(comparison: Comparison) -> list[bool]:
    """Which columns are aligned right: those beside the leading text in which a number stands."""
    columns = zip(*comparison.rows) if comparison.rows else [()] * len(comparison.head)
    return [i >= comparison.left and any(NUMBER.match(cell) for cell in cells) for i, cells in enumerate(columns)]


HELPERS = {
    "machine_folder": machine_folder,
    "case_page": case_page,
    "anchors": anchors,
    "numbers": numbers,
    "verdict_class": verdict_class,
    "title": title,
    "case_title": case_title,
    "WIDTH": drawn.WIDTH,
    "HEIGHT": drawn.HEIGHT,
    "STATUSES": STATUSES,
}


def figures(value: float) -> str:
    """Six significant figures, and all those before the point: 480,709,000 and 0.0123457."""
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def empty(target: Path) -> None:
    """Removes an earlier site; makes the folder and marks it as ours. Raises Unbuildable."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        if not (target / MARK).exists():
            raise Unbuildable(f"{target} exists and holds no framebench site; remove it, or name another folder")
        shutil.rmtree(target)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).write_text("written by framebench report --html; the next one replaces this folder\n")


@dataclass
class Writer:
    """Renders templates into the folder; `root` in them leads from the page back to the folder."""

    target: Path
    common: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loader = FileSystemLoader([THIS_FOLDER / "templates", PACKAGE])
        self.environment = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self.environment.filters |= {"figures": figures, "figure_title": figure_title}
        self.environment.globals.update(**HELPERS)

    def page(self, path: str, template: str, **context: Any) -> None:
        root = "../" * path.count("/")
        text = self.environment.get_template(template).render(self.common | context | {"root": root, "path": path})
        self.file(path, text)

    def file(self, path: str, text: str) -> None:
        where = self.target / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text, encoding="utf-8", errors="replace")  # a lone surrogate in a record is no reason to fail
