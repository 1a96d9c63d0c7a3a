"""Show what came of planted faults and bugs: `python -m studies.planted_bugs`."""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.engine import runner
from studies.planted_bugs import faults, mutants, without_bugs
from studies.tables import IntoReadme, show_tables
from tests.mutants.outcomes import MUTANTS

STUDY = Path(__file__).parent
FAULTS = STUDY / "data/faults.json"


def make_tables() -> list[Table]:
    """Return the tables of both campaigns, and that of the published records without any bug."""
    return [
        *faults.comparisons(FAULTS),
        *mutants.comparisons(MUTANTS),
        without_bugs.comparison(Results(runner.RESULTS).records),
    ]


def main(readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    show_tables(make_tables(), STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
