"""Predict what others measured on GPUs, and show the errors:

`python -m studies.published_peaks --help`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import err, say
from framebench.engine import environments
from studies.published_peaks import errors, judged, programs, rows
from studies.published_peaks.programs import Program
from studies.published_peaks.rows import DATA, Row
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent
PACKAGE = "judge"  # requirements/judge.txt
AT_ONCE = 27  # rows of one process, which spends some ten seconds on imports
app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    if context.invoked_subcommand is None:
        show_tables(errors.of_folder(), STUDY, readme)


@app.command()
def predict(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="Parts of rows' keys, models or sources. Default: all rows."),
    ] = None,
    again: Annotated[bool, typer.Option(help="Also rows that have a prediction.")] = False,
) -> None:
    """Predict the rows that have no prediction yet. An interrupted run resumes where it stopped."""
    chosen = [(row, program) for row, program in find_writable() if is_named(row, parts or [])]
    todo = list(judged.pending(DATA, chosen, again))
    if not todo:
        return
    environment = environments.ensure("torch", say=say, package=PACKAGE)
    beside = rows.beside_the_pool(rows.read())
    for start in range(0, len(todo), AT_ONCE):
        batch = todo[start : start + AT_ONCE]
        for number, ((row, program), answer) in enumerate(
            zip(batch, judged.predict(batch, environment)), start + 1
        ):
            judged.write(DATA, answer, row)
            outcome = errors.describe_row(errors.compare_row(row, program, answer, beside))
            progress = f"{number}/{len(todo)} {row.key}: {outcome} ({answer.wall_s:.0f} s)"
            err.print(progress, markup=False, highlight=False)


def find_writable() -> list[tuple[Row, Program]]:
    """Return the rows whose program is known, with it."""
    found = []
    for row in rows.read():
        try:
            found.append((row, programs.program(row)))
        except programs.Unwritten:
            continue
    return found


def is_named(row: Row, parts: list[str]) -> bool:
    """Whether one of the parts occurs in the row's names; without parts every row is named."""
    names = f"{row.key} {row.model} {row.source}".lower()
    return not parts or any(part.lower() in names for part in parts)


if __name__ == "__main__":
    app()
