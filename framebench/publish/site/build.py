"""Builds the site: every record as pages under one folder. `build` is all that others need."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from framebench.analysis import breakdown, tables
from framebench.analysis.reports import support
from framebench.analysis.results import Results
from framebench.publish.site import asv, casepage, front
from framebench.publish.site.links import case_page, machine_folder, slug
from framebench.publish.site.machine import Machine, all_cases, machines, of_workload
from framebench.publish.site.titles import figure_order, subject
from framebench.publish.site.writer import THIS_FOLDER, Unbuildable, Writer, empty
from framebench.publish.tables import behind
from framebench.records.record import Record
from framebench.versions import asv_history as history

if TYPE_CHECKING:
    from framebench.analysis.figures import Picture


def build(results: Results, target: Path, shown: list[Record] | None = None) -> list[Path]:
    """Writes the site of these results, or of the records among them that are to be shown. Returns its pages.

    A site that is already in the folder is replaced. Raises Unbuildable without records, and if
    something else is there.
    """
    shown_records = results.records if shown is None else shown
    if not shown_records:
        raise Unbuildable(f"no such records under {results.root}; measure first: framebench run, or make bench")
    everywhere = machines(shown_records, results)
    empty(target)
    shutil.copytree(THIS_FOLDER / "static", target / "static")
    writer = Writer(target, {"machines": everywhere, "results": results.root.name})
    # every page's header links to these two
    releases = asv.releases(shown_records, history.read_plans(results.root))
    writer.common["has_releases"] = bool(releases)
    writer.common["without_asv"] = _write_asv(writer, results.root)
    if releases:
        writer.page("asv/releases.html", "asv_releases.html", benchmarks=releases)
    writer.page("support.html", "support.html", comparisons=support.make_tables())
    from framebench.analysis import figures  # takes seconds
    from framebench.publish.figures import questions

    with figures.drawing_pool() as pool:  # draws while the pages are written here
        pictures = [figures.render_all(pool, questions(machine.shown, results)) for machine in everywhere]
        drawn = [_write_machine(writer, machine, of_machine) for machine, of_machine in zip(everywhere, pictures)]
    _write_front(writer, everywhere, drawn[0])
    return sorted(target.rglob("*.html"))


def _write_front(writer: Writer, everywhere: list[Machine], pictures_of_first: dict[str, Picture]) -> None:
    """The first page: a question with its answer, then a step, releases and the map of the first machine."""
    folder = machine_folder(everywhere[0].name)
    steps = [(f"{folder}/{file}", picture) for file, picture in pictures_of_first.items() if picture.name.startswith("step-")]
    news = [
        (f"{machine_folder(machine.name)}/{page.name}.html", sentence)
        for machine in everywhere
        for page in machine.more_pages
        for sentence in page.news
    ]
    of_first = [found[0] for found in everywhere[0].drawn.values() if found]
    largest = max(of_first, key=lambda one: len(one.compared), default=None)
    writer.file(front.FILE, front.script(everywhere))
    writer.page("index.html", "overview.html", steps=steps, news=news, largest=largest)


def _write_asv(writer: Writer, results: Path) -> str:
    """asv's histories; returns why there are none, or "" if there are."""
    none = "Each of them has one point so far: a history begins with the second commit that is measured"
    if (results / "asv").exists() and not asv.several_commits(results):
        return none
    try:
        with tempfile.TemporaryDirectory() as folder:
            asv.write(results, Path(folder) / "asv")
            histories = asv.benchmarks(Path(folder) / "asv")
    except asv.Unpublished as reason:
        return str(reason)
    if not any(len(series.points) > 1 for benchmark in histories for series in benchmark.series):
        return none
    writer.page("asv/index.html", "asv.html", benchmarks=histories, without_asv="")
    return ""


def _write_machine(writer: Writer, machine: Machine, pictures: Iterable[Picture]) -> dict[str, Picture]:
    """All of its pages; returns its figures by their files, which are the last to be asked for."""
    folder = machine_folder(machine.name)
    writer.page(f"{folder}/index.html", "machine.html", machine=machine)
    writer.page(f"{folder}/cases.html", "cases.html", machine=machine, comparison_table=all_cases(machine))
    for workload in machine.workloads:
        _write_workload(writer, machine, workload)
    for page in machine.more_pages:
        writer.page(f"{folder}/{page.name}.html", page.template, machine=machine, **page.context())
    bounds = {(r["case"], r["measured_at"]): r for _, r in breakdown.breakdown(machine.table).iterrows()}
    for case, line in machine.with_a_page.items():
        case_records = machine.records_by_case[case]
        record = next(r for r in case_records if r.provenance.measured_at == line["measured_at"])
        _write_case(writer, machine, record, case_records, line, bounds.get((case, line["measured_at"])))
    drawn = by_file(pictures)
    for file, picture in drawn.items():
        writer.file(f"{folder}/{file}", picture.svg)
    subjects = {of: dict(several) for of, several in groupby(drawn.items(), lambda item: subject(item[1].name))}
    writer.page(f"{folder}/figures.html", "figures.html", machine=machine, subjects=subjects)
    return drawn


def by_file(pictures: Iterable[Picture]) -> dict[str, Picture]:
    """By the file beside the machine's pages, in their order; the support matrix is a page."""
    drawn = sorted(pictures, key=lambda picture: figure_order(picture.name))
    return {f"figures/{slug(picture.name)}.svg": picture for picture in drawn if picture.name != "support"}


def _write_workload(writer: Writer, machine: Machine, workload: str) -> None:
    """A page of pictures and one table, and one of what stands behind them."""
    folder = machine_folder(machine.name)
    rows = tables.select_in_use(machine.shown[machine.shown["workload"] == workload])
    comparisons = [*tables.make_framework_tables(rows), *behind(rows)]
    writer.page(
        f"{folder}/{workload}.html", "workload.html", machine=machine, workload=workload, drawn=machine.drawn[workload],
        table=of_workload(machine, workload), behind=len(comparisons),
    )  # fmt: skip
    if comparisons:
        writer.page(
            f"{folder}/{workload}-behind.html", "behind.html", machine=machine, workload=workload, comparisons=comparisons
        )


def _write_case(
    writer: Writer, machine: Machine, record: Record, case_records: list[Record], line: pd.Series, bound: pd.Series | None
) -> None:
    """A page of the record that counts, with all others as its history."""
    writer.page(
        case_page(machine.name, record.case), "case.html", machine=machine, record=record, case=record.parsed,
        sections=casepage.sections(record, case_records, line, bound), dots=casepage.dots(record, case_records),
        ticks=casepage.ticks(record, case_records),
    )  # fmt: skip
