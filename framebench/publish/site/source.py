"""Write the pages that Sphinx reads: Markdown, and a file for each block of HTML in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from framebench.analysis.rendering import Table
from framebench.publish.site.markup import escape_markdown, make_table

FOLDER_WITHOUT_PAGES = "html"


@dataclass(frozen=True)
class SourceFolder:
    """The folder that Sphinx reads."""

    folder: Path

    def write(self, path: str, text: str) -> Path:
        """Write a file below the folder and return its path."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # records may contain a lone surrogate, which is no reason to fail
        file.write_text(text, encoding="utf-8", errors="replace")
        return file

    def copy(self, file: Path, path: str) -> None:
        """Copy a file to a path below the folder."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


@dataclass
class Page:
    """A page that is being made. `path` is below the source's folder, without an ending."""

    source: SourceFolder
    path: str
    title: str
    parts: list[str] = field(default_factory=list)
    blocks: int = 0

    @property
    def root(self) -> str:
        """Return the relative path from the page to the folder of the site."""
        return "../" * self.path.count("/")

    def add_heading(self, title: str) -> None:
        """Add a heading. No markup in its title has an effect."""
        self.parts.append(f"## {escape_markdown(title)}")

    def add_text(self, text: str) -> None:
        """Add a paragraph. No markup in it has an effect."""
        self.parts.append(escape_markdown(text))

    def add_markdown(self, text: str) -> None:
        """Add Markdown that the project wrote; no part of it may be from a record."""
        self.parts.append(text)

    def add_html(self, html: Markup) -> None:
        """Add HTML that a template made; searches leave it out."""
        self.blocks += 1
        name = f"{FOLDER_WITHOUT_PAGES}/{self.path}-{self.blocks}.html"
        file = self.source.write(name, f"{html}\n")
        self.parts.append(f"```{{raw}} html\n:file: {file.resolve()}\n:class: no-search\n```")

    def add_tables(self, *tables: Table) -> None:
        """Add tables, each below a heading of its own."""
        for table in tables:
            self.add_heading(table.title)
            self.add_html(make_table(table, self.root))

    def add_contents(self, pages: Iterable[str], *, is_hidden: bool = False) -> None:
        """Add the list of the pages below this one, by their paths from the source's folder."""
        entries = "\n".join(f"/{page}" for page in pages)
        hidden = ":hidden:\n" if is_hidden else ""
        self.parts.append(f"```{{toctree}}\n:maxdepth: 1\n{hidden}\n{entries}\n```")

    def save(self) -> str:
        """Write the page and return its path."""
        text = "\n\n".join([f"# {escape_markdown(self.title)}", *self.parts])
        self.source.write(f"{self.path}.md", f"{text}\n")
        return self.path
