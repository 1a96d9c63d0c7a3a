"""Commands that draw: `figures | notebooks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import Machine, Results, app, fail, machine_of, say
from framebench.measure import runner
from framebench.records import provenance


@app.command()
def figures(
    results: Results = runner.RESULTS,
    machine: Machine = None,
    to: Annotated[Path, typer.Option(help="folder of the SVG files")] = provenance.ROOT / "docs" / "figures",
) -> None:
    """Every figure that the records of one machine can fill, as SVG: the same bytes for the same records."""
    from analysis.figures import save_all
    from analysis.results import Results as Folder

    folder = Folder(results)
    for path in save_all(folder.table(machine_of(folder, machine)), to, results):
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
    from analysis.results import Results as Folder

    chosen = machine_of(Folder(results), machine)
    known = {source.stem: source for source in notebook.sources()}
    if wrong := [name for name in names or () if name not in known]:
        fail(f"no notebook {wrong[0]!r}; there are: {', '.join(known)}", 2)
    empty = False
    for name in names or known:
        say(f"running {name}")
        try:
            made = notebook.execute(known[name], results, chosen)
        except notebook.NotFilled as error:
            empty = True
            say(f"left out {name}: the records of {chosen} do not fill it ({error})")
        else:
            typer.echo(notebook.save(made, (to or notebook.EXECUTED) / f"{name}.ipynb"))
    if empty:
        raise typer.Exit(1)
