"""Show the replayed histories and cuDNN's answers: `python -m studies.gpu_allocator`."""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis.rendering import Table
from framebench.devices.plans.store import read_every
from studies import gpu_session
from studies.gpu_allocator import replay, workspaces
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent
FIRST_PREDICTIONS = Path(gpu_session.__file__).parent / "data"


def make_tables() -> list[Table]:
    """Return the replayed histories, then what cuDNN answered."""
    replayed = replay.table(read_every(FIRST_PREDICTIONS, "planned_earlier"))
    return [*([replayed] if replayed else []), *workspaces.tables()]


def main(readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    show_tables(make_tables(), STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
