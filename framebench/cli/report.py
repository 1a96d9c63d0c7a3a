"""`report`: what the records say, as tables, in documents, as a site, as figures, as notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.reading import has, kept
from framebench.cli.shared import (
    ALL,
    READ,
    Machines,
    Results,
    Selectors,
    app,
    fail,
    file_to_write,
    folder_to_fill,
    machine_of,
    machines_of,
    out,
    say,
    writable,
)
from framebench.engine import runner
from framebench.records import provenance
from framebench.records.record import Record

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder

SITE, FIGURES = Path("site"), provenance.ROOT / "docs" / "figures"


def documents(files: list[Path] | None) -> list[Path]:
    """Those that are there and can be written. Raises typer.BadParameter."""
    for file in files or ():
        if not file.is_file():
            raise typer.BadParameter(f"no document {file}")
        file_to_write(file)
    return files or []


@app.command(rich_help_panel=READ)
def report(
    selectors: Selectors = None,
    results: Results = runner.RESULTS,
    machine: Machines = None,
    html: Annotated[bool, typer.Option("--html", help="Write a site, by default to site/.")] = False,
    figures: Annotated[
        str | None, typer.Option(help="Draw a machine's `all`, one or some (`pareto-*`) as SVG, by default to docs/figures/.")
    ] = None,
    notebooks: Annotated[
        list[str] | None, typer.Option(help="Execute a notebook, or `all`, by default into analysis/notebooks/executed/.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(callback=folder_to_fill, help="Folder of the site, the figures or the notebooks.")
    ] = None,
    docs: Annotated[
        list[Path] | None,
        typer.Option(callback=documents, help="Fill in the tables of a document anew, from committed records."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Print the predictions that are kept for a device that is not here.")
    ] = None,
) -> None:
    """Print the tables of the named cases. Without cases: print a summary, and write all tables to results/tables/MACHINE.md.
    Options make a site, figures or notebooks instead."""
    from framebench.analysis.results import Results as Folder

    if (asked := sum(map(bool, (html, figures, notebooks)))) > 1 or (to and not asked):
        fail("one of --html, --figures and --notebooks at a time, and --to beside one of them", 2)
    if selectors and (figures or notebooks):
        fail("figures and notebooks are of all cases of a machine: leave the cases out", 2)
    if device is not None:
        return _of_device(device, results)
    tracked = machine is None and (docs or ((figures or notebooks) and not to))
    folder = Folder.committed(results) if tracked else Folder(results)
    if notebooks:
        from framebench.publish.notebooks.run import run

        return run(notebooks, folder, machine_of(folder, machine), to)
    if figures:
        return _draw(figures, folder, machine_of(folder, machine), to or FIGURES)
    machines = machines_of(folder, ALL if tracked else machine, has(folder, selectors))
    shown = kept(selectors, machines, folder)
    if not shown:
        fail(f"no such records under {results}; measure first: framebench run, or make bench", 1)
    if html:
        return site(shown, folder, to or SITE)
    tables(shown, folder, machines if not selectors else [], docs or [])


def _of_device(name: str, results: Path) -> None:
    """What was predicted before; nothing is planned now."""
    from framebench.devices.documents import of_named

    made = of_named(name, results)
    if not made:
        fail(f"no tables for {name} under {results}; predict first: framebench predict CASES --device {name}", 1)
    for comparison in made:
        comparison.terminal(out)


def tables(shown: list[Record], folder: Folder, whole: list[str], docs: list[Path]) -> None:
    """Of some cases on the terminal; of whole machines a summary there, and all as files; then those of documents."""
    from framebench.analysis.reports.documents import NoSuchTable, refresh
    from framebench.publish.tables import generated, of_records

    if whole:
        writable(folder.root / "tables")
    comparisons = of_records(shown, folder.root)
    for comparison in comparisons if not whole else ():
        if comparison.machine:  # of some cases no comparison with what others have published
            comparison.terminal(out)
    for name in whole:
        _summary(folder, name)
        target = folder.root / "tables" / f"{name}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(c.markdown() for c in comparisons if c.machine == name))
        say(f"every table: {target}")
    every = generated(folder, comparisons if len(shown) == len(folder.records) else None) if docs else []
    for document in docs:
        try:
            document.write_text(refresh(document.read_text(), every))
        except NoSuchTable as error:
            fail(f"{document}: {error}", 2)


def _summary(folder: Folder, machine: str) -> None:
    """A page: what training needs, and what else there is to ask for."""
    from framebench.analysis.reports.answer import answer
    from framebench.analysis.tables import make_index

    table = folder.table(machine)
    for comparison in (answer(table), make_index(table)):
        comparison.terminal(out)


def site(shown: list[Record], folder: Folder, target: Path) -> None:
    """These records as pages that need neither network nor server."""
    from framebench.publish.site.build import build

    writable(target)
    try:
        pages = build(folder, target, shown)
    except ValueError as error:
        fail(str(error), 2)
    say(f"{len(pages)} pages; open {target / 'index.html'}")


def _draw(name: str, folder: Folder, machine: str, to: Path) -> None:
    """The figures of that name, or all, that one machine's records can fill: the same bytes for the same records."""
    from framebench.publish.figures import save

    writable(to)
    try:
        made = save(folder.table(machine), to, folder, "*" if name == ALL else name)
    except ValueError as error:
        fail(str(error), 2)
    typer.echo("\n".join(map(str, made)))
