"""Copy the guides, studies and notebooks of a checkout among the pages.

An installed package has none of them, so neither has its site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from framebench.publish.notebooks.notebook import EXECUTED
from framebench.publish.site.source import Page, SourceFolder
from framebench.records.provenance import ROOT

DOCS = ROOT / "docs"
# the pages of docs/ by what a reader wants of them; one that is missing here is no page's child, so
# that Sphinx warns and the build fails
START = ["tutorial", "setup"]
HOW_TO = [
    "budget",
    "try",
    "simulate",
    "versions",
    "explain",
    "growth",
    "gpu",
    "sharding",
    "cluster",
    "asv",
    "data",
    "extending",
]
EXPLANATION = ["reading", "verification", "checks", "devices", "claims", "reports", "batches"]
REFERENCE = ["commands", "strategies"]
# among the other files of a checkout that become pages
OTHERS = ("CONTRIBUTING.md", "CHANGELOG.md", "examples/articles/README.md")
# of Markdown, to a file of the checkout; an image's begins with an exclamation mark
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#|mailto:)(?P<target>[^)#\s]+)(#[^)\s]*)?\)"
)


def write_guides(source: SourceFolder) -> list[str]:
    """Write each guide as a page, and two pages that list the guides; return the paths of the two.

    The menu shows these. Without a checkout there are none. A page keeps its path below the
    checkout, so that links between pages hold.
    """
    if not DOCS.is_dir():
        return []
    docs = sorted(DOCS.glob("*.md"))
    studies = sorted((ROOT / "studies").glob("**/README.md"))
    others = [ROOT / name for name in OTHERS if (ROOT / name).exists()]
    pages = [*docs, *studies, *others]
    for file in pages:
        path = file.relative_to(ROOT)
        text = drop_dead_links(file.read_text(encoding="utf-8"), file, pages)
        source.write(path.as_posix(), text)
    for image in sorted((DOCS / "figures").glob("*.svg")):
        source.copy(image, image.relative_to(ROOT).as_posix())
    guides = Page(source, "guides", "Guides")
    guides.add_heading("Begin")
    guides.add_contents(f"docs/{name}" for name in START)
    guides.add_heading("How to")
    guides.add_contents(f"docs/{name}" for name in HOW_TO)
    guides.add_heading("Take part")
    guides.add_contents(map(name_page, others))
    explanation = Page(source, "explanation", "Explanation")
    explanation.add_contents(f"docs/{name}" for name in EXPLANATION)
    if studies:
        explanation.add_heading("Studies")
        explanation.add_markdown(
            "Research that backs a page, each with its data in the repository."
        )
        explanation.add_contents(map(name_page, studies))
    return [guides.save(), explanation.save()]


def name_page(file: Path) -> str:
    """Return the path of the page that a file of the checkout becomes."""
    return file.relative_to(ROOT).with_suffix("").as_posix()


def drop_dead_links(text: str, file: Path, pages: Collection[Path]) -> str:
    """Return a page's Markdown in which only links to other pages and to images are left.

    Other files of the checkout are named without a link, since the site does not have them. A link
    to a file that does not exist stays, so that Sphinx complains.
    """

    def replace(found: re.Match[str]) -> str:
        """Return the link as it is, or only its text."""
        path = Path(os.path.normpath(file.parent / found["target"]))
        is_kept = found["image"] or path in pages or not path.exists()
        return found[0] if is_kept else found["text"]

    return LINK.sub(replace, text)


def list_reference_guides() -> list[str]:
    """Return the paths of the reference's pages that are written by hand."""
    return [f"docs/{name}" for name in REFERENCE] if DOCS.is_dir() else []


def write_notebooks(source: SourceFolder) -> list[str]:
    """Copy the executed notebooks, and write the page that lists them; return its path, if any."""
    notebooks = sorted(EXECUTED.glob("*.ipynb"))
    if not notebooks:
        return []
    page = Page(source, "notebooks/index", "Notebooks")
    page.add_markdown(
        "The published records as pandas and seaborn see them; `make jupyter` opens these."
    )
    for notebook in notebooks:
        source.copy(notebook, f"notebooks/{notebook.name}")
    page.add_contents(f"notebooks/{notebook.stem}" for notebook in notebooks)
    return [page.save()]
