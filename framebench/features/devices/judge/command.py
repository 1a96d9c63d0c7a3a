"""`framebench dev judge`: predict what others measured on cards that are not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import Results, err, out, say
from framebench.cli.upkeep import dev
from framebench.engine import environments, runner
from framebench.features.devices.judge import judged, measured, programs
from framebench.features.devices.judge.measured import Row
from framebench.features.devices.judge.programs import Program

PACKAGE = "judge"  # requirements/judge.txt
AT_ONCE = 27  # rows of one process, which spends some ten seconds on imports


@dev.command()
def judge(
    rows: Annotated[
        list[str] | None, typer.Argument(help="parts of rows' keys, models or sources; by default all rows")
    ] = None,
    again: Annotated[bool, typer.Option(help="also rows that this code has predicted already")] = False,
    show: Annotated[bool, typer.Option(help="only show what was predicted")] = False,
    results: Results = runner.RESULTS,
) -> None:
    """Predict what others measured on real cards (results/measured_elsewhere), and show errors. Goes on where it stopped."""
    chosen = [(row, program) for row, program in writable(results) if _named(row, rows or [])]
    if not show:
        todo = list(judged.pending(results, chosen, again))
        environment = environments.ensure("torch", say=say, package=PACKAGE) if todo else None
        for at in range(0, len(todo), AT_ONCE):
            assert environment
            some = todo[at : at + AT_ONCE]
            for number, ((row, _), answer) in enumerate(zip(some, judged.predict(some, environment)), at + 1):
                judged.write(results, answer, row)
                told = answer.failed or f"{answer.reserved_bytes:,} bytes reserved"
                err.print(f"{number}/{len(todo)} {row.key}: {told} ({answer.wall_s:.0f} s)", markup=False, highlight=False)
    from framebench.features.devices.judge import table

    for comparison in table.of_folder(results):
        comparison.terminal(out)


def writable(results: Path) -> list[tuple[Row, Program]]:
    found = []
    for row in measured.read(results):
        try:
            found.append((row, programs.program(row)))
        except programs.Unwritten:
            continue
    return found


def _named(row: Row, parts: list[str]) -> bool:
    return not parts or any(part.lower() in f"{row.key} {row.model} {row.source}".lower() for part in parts)
