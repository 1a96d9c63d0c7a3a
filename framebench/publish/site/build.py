"""Build the site: every record as pages under one folder. `build` is all that others need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from framebench.analysis import breakdown, tables
from framebench.analysis.part_tables import make_part_tables
from framebench.analysis.reports import support
from framebench.analysis.results import Results
from framebench.publish.site import asv, casepage, front
from framebench.publish.site.links import get_case_page, get_machine_folder, make_slug
from framebench.publish.site.machine import (
    Machine,
    list_machines,
    make_case_table,
    make_workload_table,
)
from framebench.publish.site.titles import figure_sort_key, get_figure_subject
from framebench.publish.site.writer import Unbuildable, Writer, prepare_folder
from framebench.records.record import Record
from framebench.versions import asv_history

if TYPE_CHECKING:
    from framebench.analysis.figures import Picture

NO_HISTORY = (
    "Each of them has one point so far: a history begins with the second commit that is measured"
)


def build(results: Results, target: Path, shown: list[Record] | None = None) -> list[Path]:
    """Write the site of these results, or of the records among them that are to be shown.

    Return its pages. A site that is already in the folder is replaced. Raises Unbuildable without
    records, and if something else is there.
    """
    records = results.records if shown is None else shown
    if not records:
        raise Unbuildable(
            f"no such records under {results.root}; measure first: framebench run, or make bench",
        )
    machines = list_machines(records, results)
    prepare_folder(target)
    releases = asv.read_release_benchmarks(records, asv_history.read_plans(results.root))
    histories, without_asv = read_asv(results.root)
    common = {
        "machines": machines,
        "results": results.root.name,
        # the header of every page links to the pages of releases and of asv, if there are any
        "has_releases": bool(releases),
        "without_asv": without_asv,
    }
    writer = Writer(target, common)
    if histories:
        writer.write_page("asv/index.html", "asv.html", benchmarks=histories)
    if releases:
        writer.write_page("asv/releases.html", "asv_releases.html", benchmarks=releases)
    writer.write_page("support.html", "support.html", comparisons=support.make_tables())
    pictures = write_machines(writer, machines, results)
    write_front(writer, machines, pictures)
    return sorted(target.rglob("*.html"))


def read_asv(results: Path) -> tuple[list[asv.Benchmark], str]:
    """Return asv's histories; where there are none, also why."""
    if (results / "asv").exists() and not asv.has_several_commits(results):
        return [], NO_HISTORY
    try:
        with tempfile.TemporaryDirectory() as folder:
            asv.publish_histories(results, Path(folder) / "asv")
            benchmarks = asv.read_benchmarks(Path(folder) / "asv")
    except asv.Unpublished as reason:
        return [], str(reason)
    for benchmark in benchmarks:
        if any(len(series.points) > 1 for series in benchmark.series):
            return benchmarks, ""
    return [], NO_HISTORY


def write_machines(writer: Writer, machines: list[Machine], results: Results) -> dict[str, Picture]:
    """Write the pages of all machines; return the figures of the first by their files."""
    from framebench.analysis import figures  # takes seconds
    from framebench.publish.figures import list_figures

    written = []
    with figures.start_drawing_pool() as pool:
        # the pool draws all figures while the pages are written here
        pictures = []
        for machine in machines:
            pictures.append(figures.render_all(pool, list_figures(machine.shown, results)))
        for machine, of_machine in zip(machines, pictures):
            written.append(write_machine(writer, machine, of_machine))
    return written[0]


def write_machine(
    writer: Writer,
    machine: Machine,
    pictures: Iterable[Picture],
) -> dict[str, Picture]:
    """Write the pages of a machine; return its figures by their files.

    The figures are written last, since they may still be drawn.
    """
    folder = get_machine_folder(machine.name)
    writer.write_page(f"{folder}/index.html", "machine.html", machine=machine)
    writer.write_page(
        f"{folder}/cases.html",
        "cases.html",
        machine=machine,
        comparison_table=make_case_table(machine),
    )
    for workload in machine.workloads:
        write_workload(writer, machine, workload)
    for page in machine.more_pages:
        file = f"{folder}/{page.name}.html"
        writer.write_page(file, page.template, machine=machine, **page.context())
    write_cases(writer, machine)
    return write_figures(writer, machine, pictures)


def write_workload(writer: Writer, machine: Machine, workload: str) -> None:
    """Write a page of pictures and one table, and one of what stands behind them."""
    folder = get_machine_folder(machine.name)
    rows = tables.select_in_use(machine.shown[machine.shown["workload"] == workload])
    behind = [*tables.make_framework_tables(rows), *make_part_tables(rows)]
    writer.write_page(
        f"{folder}/{workload}.html",
        "workload.html",
        machine=machine,
        workload=workload,
        drawings=machine.drawings[workload],
        table=make_workload_table(machine, workload),
        behind=len(behind),
    )
    if behind:
        writer.write_page(
            f"{folder}/{workload}-behind.html",
            "behind.html",
            machine=machine,
            workload=workload,
            comparisons=behind,
        )


def write_cases(writer: Writer, machine: Machine) -> None:
    """Write a page for each case: of the record that counts, with all others as its history."""
    bounds: dict[tuple[object, object], pd.Series] = {}
    for _, bound in breakdown.split_peaks(machine.table).iterrows():
        bounds[bound["case"], bound["measured_at"]] = bound
    for case, row in machine.page_rows.items():
        case_records = machine.records_by_case[case]
        record = find_record(case_records, row)
        writer.write_page(
            get_case_page(machine.name, case),
            "case.html",
            machine=machine,
            record=record,
            case=record.parsed,
            sections=casepage.make_sections(
                record, case_records, row, bounds.get((case, row["measured_at"]))
            ),
            dots=casepage.draw_dots(record, case_records),
            ticks=casepage.draw_ticks(record, case_records),
        )


def find_record(case_records: list[Record], row: pd.Series) -> Record:
    """Return the record that a row of the machine's table was made of."""
    for record in case_records:
        if record.provenance.measured_at == row["measured_at"]:
            return record
    raise LookupError(f"no record of {row['case']} at {row['measured_at']}")


def write_figures(
    writer: Writer,
    machine: Machine,
    pictures: Iterable[Picture],
) -> dict[str, Picture]:
    """Write the figures of a machine and the page that shows them; return them by their files."""
    folder = get_machine_folder(machine.name)
    pictures_by_file: dict[str, Picture] = {}
    subjects: dict[str, dict[str, Picture]] = {}
    for picture in sorted(pictures, key=lambda picture: figure_sort_key(picture.name)):
        if picture.name == "support":
            continue  # a page of its own shows the same as tables
        file = f"figures/{make_slug(picture.name)}.svg"
        pictures_by_file[file] = picture
        subjects.setdefault(get_figure_subject(picture.name), {})[file] = picture
        writer.write_file(f"{folder}/{file}", picture.svg)
    writer.write_page(f"{folder}/figures.html", "figures.html", machine=machine, subjects=subjects)
    return pictures_by_file


def write_front(writer: Writer, machines: list[Machine], pictures: dict[str, Picture]) -> None:
    """Write the first page: a question with its answer, then a step, releases, and a map.

    The step and the map are those of the first machine, whose figures are `pictures`.
    """
    first = machines[0]
    folder = get_machine_folder(first.name)
    steps = []
    for file, picture in pictures.items():
        if picture.name.startswith("step-"):
            steps.append((f"{folder}/{file}", picture))
    news = []
    for machine in machines:
        for page in machine.more_pages:
            file = f"{get_machine_folder(machine.name)}/{page.name}.html"
            news += [(file, sentence) for sentence in page.news]
    mains = [drawings[0] for drawings in first.drawings.values() if drawings]
    largest = max(mains, key=lambda drawing: len(drawing.compared), default=None)
    writer.write_file(front.FILE, front.make_script(machines))
    writer.write_page("index.html", "overview.html", steps=steps, news=news, largest=largest)
