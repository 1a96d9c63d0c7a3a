"""Show how far predictions were off, and write what the package states:

`python -m studies.prediction_errors --write --readme`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.devices.tables.errors import tabulate_errors, tabulate_judged_steps
from studies.prediction_errors.intervals import compute_intervals, tabulate_left_out, write
from studies.prediction_errors.samples import read_samples
from studies.prediction_errors.worst import tabulate_worst
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent


def main(
    readme: IntoReadme = False,
    into_package: Annotated[
        bool, typer.Option("--write", help="Write framebench/devices/errors.json.")
    ] = False,
) -> None:
    """Print the tables, or write those that README.md shows into it."""
    samples = read_samples()
    if into_package:
        write(samples)
    intervals = compute_intervals(samples)
    tables = [
        tabulate_errors(intervals),
        tabulate_judged_steps(intervals),
        tabulate_worst(samples),
        tabulate_left_out(samples, "source"),
        tabulate_left_out(samples, "family"),
    ]
    show_tables(tables, STUDY, readme)


if __name__ == "__main__":
    typer.run(main)
