"""Show published figures next to ours: `python -m studies.ground_truth`."""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis import frames, tables
from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.analysis.selection import select_current, select_one_version
from framebench.engine import runner
from studies.ground_truth import formulas, generation
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent


def make_tables() -> list[Table]:
    """Return the tables of the published records."""
    records = Results(runner.RESULTS).records
    rows = tables.select_in_use(frames.make_frame(select_one_version(select_current(records))))
    return [*formulas.comparisons(rows), generation.comparison(records)]


def main(readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    show_tables(make_tables(), STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
