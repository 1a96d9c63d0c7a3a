"""Show what a session on a GPU counted, and predictions next to it:

`python -m studies.gpu_session [RESULTS]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.analysis.rendering import Table
from framebench.devices.plans.store import read_every
from framebench.engine import runner
from framebench.records import store
from studies.gpu_session import counters, predictions
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent
EARLIER = "planned_earlier"  # below data/: the first predictions, as they were made


def make_tables(results: Path) -> list[Table]:
    """Return the table of counters, then those of predictions where there are any for the measured
    GPU.
    """
    records = list(store.read_all(results))
    planned = [*read_every(STUDY / "data", EARLIER), *read_every(results)]
    compared = [
        make(records, planned)
        for make in (predictions.table, predictions.by_workload, predictions.plans)
    ]
    return [counters.table(records), *(table for table in compared if table)]


def main(
    results: Annotated[Path, typer.Argument(help="Results folder.")] = runner.RESULTS,
    readme: IntoReadme = False,
) -> None:
    """Print the tables, or write those that README.md shows into it."""
    show_tables(make_tables(results), STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
