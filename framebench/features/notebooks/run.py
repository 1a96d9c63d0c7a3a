"""`framebench report --notebooks`."""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis.results import Results
from framebench.cli.shared import fail, say, writable
from framebench.features.notebooks import notebook
from framebench.records import provenance


def run(names: list[str], folder: Results, machine: str, to: Path | None) -> None:
    """Run the notebooks of analysis/notebooks on the records, and save them with their output, to be read without running."""
    if not notebook.can_execute():
        fail("notebooks are executed by nbclient, which is not installed here: call `make setup`", 1)
    sources_by_name = {source.stem: source for source in notebook.sources()}
    if wrong := [name for name in names if name not in (*sources_by_name, provenance.ALL)]:
        fail(f"no notebook {wrong[0]!r}; there are: {', '.join(sources_by_name)}, and {provenance.ALL}", 2)
    writable(to or notebook.EXECUTED)
    empty = False
    for name in sources_by_name if provenance.ALL in names else names:
        say(f"running {name}")
        try:
            made = notebook.execute(sources_by_name[name], folder.root, machine)
        except notebook.NotFilled as error:
            empty = True
            say(f"left out {name}: the records of {machine} do not fill it ({error})")
        else:
            typer.echo(notebook.save(made, (to or notebook.EXECUTED) / f"{name}.ipynb"))
    if empty:
        raise typer.Exit(1)
