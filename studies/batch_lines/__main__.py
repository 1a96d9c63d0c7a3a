"""Show predicted peaks of the largest batch next to measured ones:

`python -m studies.batch_lines`.
"""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis import frames
from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.analysis.selection import select_current, select_one_version
from framebench.analysis.tables import select_in_use
from framebench.engine import runner
from studies.batch_lines import held_out, smaller
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent


def make_tables() -> list[Table]:
    """Return a table for each machine, scenario and size of the published records, and one of all.

    The last one is of batches that are smaller than those that predict them.
    """
    results = Results(runner.RESULTS)
    current = select_one_version(select_current(results.records))
    tables = list(held_out.comparisons(select_in_use(frames.make_frame(current))))
    tables.append(smaller.make_table(list(smaller.predict_of_all_machines(results))))
    return tables


def main(readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    show_tables(make_tables(), STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
