"""The command `report`: what the records say, as tables, a site, figures or notebooks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.reading import find_records
from framebench.cli.shared import (
    ALL,
    READ,
    Machines,
    ResultsOption,
    Selectors,
    app,
    check_file_option,
    check_folder_option,
    check_writable,
    echo,
    fail,
    find_machine,
    out,
    repeat_options,
    say,
    suggest_measuring,
)
from framebench.devices.show import show_cached
from framebench.engine import runner
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.suite.counting import format_count

if TYPE_CHECKING:
    from framebench.analysis.rendering import Table
    from framebench.analysis.results import Results

SITE = Path("site")
FIGURES = provenance.ROOT / "docs" / "figures"


def check_documents(files: list[Path] | None) -> list[Path]:
    """Return the files, which are there and can be written. Raises typer.BadParameter."""
    files = files or []
    for file in files:
        if not file.is_file():
            raise typer.BadParameter(f"no document {file}")
        check_file_option(file)
    return files


FIGURES_HELP = (
    "Draw figures of a machine as SVG: `all`, or those of a name such as `pareto-*`. Default "
    "folder: docs/figures/."
)
NOTEBOOKS_HELP = "Execute a notebook, or `all`, by default into analysis/notebooks/executed/."
TO_HELP = "Folder of the site, the figures, the notebooks, or a file with all tables of a machine."
DOCS_HELP = "Fill in the tables of this document from committed records. May be repeated."
SHORT_HELP = "Print only the tables of the usual strategies, with few columns."
DEVICE_HELP = (
    "Print the predictions that are kept for a device that is not here: of the cases, or all."
)


@app.command(rich_help_panel=READ)
def report(
    selectors: Selectors = None,
    results: ResultsOption = runner.RESULTS,
    machine: Machines = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write a site, by default to site/.")
    ] = False,
    figures: Annotated[str | None, typer.Option(help=FIGURES_HELP)] = None,
    notebooks: Annotated[list[str] | None, typer.Option(help=NOTEBOOKS_HELP)] = None,
    to: Annotated[Path | None, typer.Option(callback=check_folder_option, help=TO_HELP)] = None,
    docs: Annotated[
        list[Path] | None, typer.Option(callback=check_documents, help=DOCS_HELP)
    ] = None,
    device: Annotated[str | None, typer.Option(help=DEVICE_HELP)] = None,
    short: Annotated[bool, typer.Option("--short", help=SHORT_HELP)] = False,
) -> None:
    """Print the tables of the named cases.

    Without cases: print a summary, and with --to DIR write all tables to DIR/MACHINE.md. Options
    make a site, figures or notebooks instead.
    """
    from framebench.analysis.results import Results

    check_options(selectors, results, html, figures, notebooks, to)
    if short and (html or figures or notebooks or docs or to or not selectors):
        fail("--short prints tables of cases: name them, such as 'transformer/*/train'", 2)
    if device is not None:
        if html or figures or notebooks or docs or to or short:
            fail("--device prints what is predicted, and takes only cases and --results", 2)
        if selectors:
            show_cached(selectors, device, results)
        else:
            print_predictions(device, results)
        return
    # files that are committed to the repository show only committed records
    goes_into_repository = docs or ((figures or notebooks) and not to)
    only_committed = machine is None and bool(goes_into_repository)
    recorded = Results.committed(results) if only_committed else Results(results)
    if figures or notebooks:
        # published files show the machine with the most records, on whatever machine they are made
        is_published = to is None
        chosen = find_machine(
            recorded, machine, recorded.has_more_than_trials, by_processor=not is_published
        )
        if figures:
            write_figures(figures, recorded, chosen, to or FIGURES)
        if notebooks:
            from framebench.publish.notebooks.notebook import run

            run(notebooks, recorded, chosen, to)
        return
    named = ALL if only_committed else machine
    machines, records = find_records(recorded, named, selectors)
    if selectors:
        records = add_baselines(records, recorded)
    if html:
        write_site(records, recorded, to or SITE)
        return
    whole_machines = [] if selectors else machines
    write_tables(records, recorded, whole_machines, docs or [], to, short)


def check_options(
    selectors: list[str] | None,
    results: Path,
    html: bool,
    figures: str | None,
    notebooks: list[str] | None,
    to: Path | None,
) -> None:
    """End the command if its options contradict each other."""
    requested_forms = [option for option in (html, figures, notebooks) if option]
    if len(requested_forms) > 1:
        fail("one of --html, --figures and --notebooks at a time", 2)
    if to and selectors and not requested_forms:
        fail("--to takes all tables of a machine: leave the cases out, or add --html", 2)
    if selectors and (figures or notebooks):
        fail("figures and notebooks are of all cases of a machine: leave the cases out", 2)
    if (figures or notebooks) and not to and results.resolve() != runner.RESULTS.resolve():
        fail(
            "the project's own figures and notebooks are of its own results: say where those of "
            f"{results} go, by --to DIR",
            2,
        )


def add_baselines(records: list[Record], results: Results) -> list[Record]:
    """Return the records, and those of their baselines on the same machines.

    Ratios are relative to baselines. Prints which baseline has no record: a case then has no ratio.
    """
    requested = {(record.provenance.machine, record.case) for record in records}
    baselines = set()
    for record in records:
        case = record.parsed
        if case.ranks == 1:  # others have tables without ratios
            baseline = replace(case, strategy=case.scenario_spec.baseline)
            baselines.add((record.provenance.machine, baseline.id))
    needed = requested | baselines
    shown = []
    for record in results.records:
        if (record.provenance.machine, record.case) in needed:
            shown.append(record)
    missing = baselines - {(record.provenance.machine, record.case) for record in shown}
    if missing:
        machine, example = min(missing)
        count = format_count(len(missing), "baseline")
        say(
            f"no ratios to {count} without a record, such as {example} on {machine}"
            f"{suggest_measuring(example, results.root)}"
        )
    return shown


def print_predictions(device: str, results: Path) -> None:
    """Print the tables of cached predictions for a device; nothing is planned now."""
    from framebench.devices.documents import make_named_tables

    tables = make_named_tables(device, results)
    if not tables:
        fail(
            f"no tables for {device} under {results}; predict first: framebench predict CASES "
            f"--device {device}{repeat_options(results)}",
            1,
        )
    for table in tables:
        table.terminal(out)


def write_tables(
    records: list[Record],
    results: Results,
    machines: list[str],
    documents: list[Path],
    to: Path | None,
    short: bool = False,
) -> None:
    """Print or write the tables of these records, and fill in the documents.

    Args:
        records: Those to show.
        results: The results that they are from; nothing is written into it.
        machines: Those of which `records` has all records. A summary is printed of each. If empty,
            the records are of only some cases, whose tables are printed.
        documents: The files to fill in.
        to: A folder in which `<machine>.md` gets all tables of each machine.
        short: Whether to print the tables in short alone, in place of the others.
    """
    from framebench.publish.tables import make_tables

    tables = make_tables(records, results)
    if not machines:
        # the others are of what several machines have published, or have nothing to show
        named = [table for table in tables if table.machine and table.rows]
        shown = [table for table in named if table.is_short == short]
        if short and not shown:  # such tables leave out rows, and here there is none to leave out
            shown = named
        for table in shown:
            table.terminal(out)
    for machine in machines:
        print_summary(results, machine)
        if to is None:
            continue
        machine_tables = [table.markdown() for table in tables if table.machine == machine]
        target = to / f"{machine}.md"
        store.write_atomically("\n".join(machine_tables), target)
        say(f"every table: {target}")
    if documents:
        if len(records) < len(results.records):  # documents show all
            tables = make_tables(results.records, results)
        fill_documents(documents, results, tables)


def fill_documents(documents: list[Path], results: Results, tables: list[Table]) -> None:
    """Fill in the tables of the documents; `tables` are those of all records."""
    from framebench.analysis.reports.documents import NoSuchTable, refresh
    from framebench.publish.tables import make_document_parts

    parts = make_document_parts(results, tables)
    for document in documents:
        try:
            store.replace_text(refresh(document.read_text(encoding="utf-8"), parts), document)
        except NoSuchTable as error:
            fail(f"{document}: {error}", 2)
        except UnicodeDecodeError as error:
            fail(f"{document}: no text in UTF-8 ({error.reason}); name a Markdown file", 2)


def print_summary(results: Results, machine: str) -> None:
    """Print the answer for a machine, and the selectors of all tables."""
    from framebench.analysis.reports.answer import make_answer
    from framebench.analysis.tables import make_index

    rows = results.table(machine)
    for table in (make_answer(rows), make_index(rows)):
        table.terminal(out)


def write_site(records: list[Record], results: Results, target: Path) -> None:
    """Write these records as pages that need neither network nor server."""
    from framebench.publish.site.build import build

    check_writable(target)
    try:
        pages = build(results, target, records)
    except ValueError as error:
        fail(str(error), 2)
    say(f"{len(pages)} pages; open {target / 'index.html'}")


def write_figures(name: str, results: Results, machine: str, target: Path) -> None:
    """Write the figures of this name, or all figures, from the records of one machine."""
    from framebench.publish.figures import save

    check_writable(target)
    try:
        paths = save(results.table(machine), target, results, "*" if name == ALL else name)
    except ValueError as error:
        fail(str(error), 2)
    echo("\n".join(map(str, paths)))
