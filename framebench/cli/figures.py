"""Commands that draw: `figures | notebooks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.shared import Results, app, fail, must_know, say
from framebench.measure import runner
from framebench.records import provenance

if TYPE_CHECKING:
    import pandas as pd

Machine = Annotated[str | None, typer.Option(help="whose records; needed where there are several")]


@app.command()
def figures(
    results: Results = runner.RESULTS,
    machine: Machine = None,
    to: Annotated[Path, typer.Option(help="folder of the SVG files")] = provenance.ROOT / "docs" / "figures",
) -> None:
    """Every figure that the records of one machine can fill, as SVG: the same bytes for the same records."""
    from analysis.figures import save_all

    for path in save_all(of_one_machine(results, machine), to, results):
        typer.echo(path)


@app.command()
def notebooks(
    names: Annotated[list[str] | None, typer.Argument(help="such as strategies; all if none is named")] = None,
    results: Results = runner.RESULTS,
    machine: Machine = None,
    to: Annotated[Path | None, typer.Option(help="folder of the executed notebooks")] = None,
) -> None:
    """Run the notebooks of analysis/notebooks on the records, and save them with their output, to be read without running."""
    from analysis import notebook

    chosen = machine_of(of_one_machine(results, machine))
    known = {source.stem: source for source in notebook.sources()}
    if wrong := [name for name in names or () if name not in known]:
        fail(f"no notebook {wrong[0]!r}; there are: {', '.join(known)}", 2)
    for name in names or known:
        say(f"running {name}")
        typer.echo(notebook.save(notebook.execute(known[name], results, chosen), (to or notebook.EXECUTED) / f"{name}.ipynb"))


def of_one_machine(results: Path, machine: str | None) -> pd.DataFrame:
    """The rows of the machine that is named, or of the only one there is. Ends the program where there is none, or a choice."""
    from analysis import frames

    table = frames.everything(results)
    machines = sorted(set(table["machine"]))
    if not machines:
        fail(f"no records under {results}; measure first: framebench run, or make bench", 1)
    if machine is None and len(machines) > 1:
        fail(f"records of several machines under {results}; choose one by --machine: {', '.join(machines)}", 2)
    must_know(machine, machines, results)
    return table[table["machine"] == (machine or machines[0])]


def machine_of(table: pd.DataFrame) -> str:
    return str(table["machine"].iloc[0])
