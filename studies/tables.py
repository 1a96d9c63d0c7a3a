"""Show a study's tables in the terminal, or write them into its README."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from framebench.analysis.rendering import Table
from framebench.analysis.reports.documents import refresh

WIDTH = 250  # columns of a file or a pipe
IntoReadme = Annotated[
    bool, typer.Option("--readme", help="Write the tables that README.md shows into it.")
]


def show_tables(tables: Sequence[Table], study: Path, into_readme: bool = False) -> None:
    """Print all tables of a study, or refresh those that its README shows.

    Raises NoSuchTable where the README asks for a table that is not among them.
    """
    if into_readme:
        readme = study / "README.md"
        readme.write_text(refresh(readme.read_text(), tables))
        return
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(width=width)
    for table in tables:
        table.terminal(console)
