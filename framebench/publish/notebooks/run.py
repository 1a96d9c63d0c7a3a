"""`framebench report --notebooks`."""

from __future__ import annotations

from pathlib import Path

import typer

from framebench.analysis.results import Results
from framebench.cli.shared import check_writable, echo, fail, say
from framebench.publish.notebooks import notebook
from framebench.records import provenance


def run(names: list[str], folder: Results, machine: str, to: Path | None) -> None:
    """Run the notebooks with these names on a machine's records, and save them with their
    output.
    """
    if not notebook.can_execute():
        fail(
            "notebooks are executed by nbclient, which is not installed here: call `make setup`",
            1,
        )
    sources = {source.stem: source for source in notebook.list_sources()}
    unknown = [name for name in names if name not in (*sources, provenance.ALL)]
    if unknown:
        fail(
            f"no notebook {unknown[0]!r}; there are: {', '.join(sources)}, and {provenance.ALL}",
            2,
        )
    target = to or notebook.EXECUTED
    check_writable(target)
    is_incomplete = False
    for name in sources if provenance.ALL in names else names:
        say(f"running {name}")
        try:
            executed = notebook.execute(sources[name], folder.root, machine)
        except notebook.NotFilled as error:
            is_incomplete = True
            say(f"left out {name}: the records of {machine} do not fill it ({error})")
        else:
            echo(notebook.save(executed, target / f"{name}.ipynb"))
    if is_incomplete:
        raise typer.Exit(1)
