"""Write the pages of asv's histories: of commits, and of releases of the frameworks."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from framebench.analysis.results import Results
from framebench.publish.site import asv
from framebench.publish.site.markup import render
from framebench.publish.site.source import Page, SourceFolder
from framebench.records.record import Record
from framebench.versions import asv_history

COMMITS = (
    "The metrics that `asv run` tracked, over the commits of this project. `asv publish` made the "
    "numbers; for its interactive plots run `asv publish` and `asv preview`. Two commits share no "
    "block: a change of peaks is the code's, one of times may be the machine's drift."
)
RELEASES = (
    "What each release of a framework needed, as `asv publish` shows it: a commit for each "
    "release, from the records of all machines that measured two of them. "
    "`framebench versions publish` prints the regressions. Times are medians of each release's "
    "own processes: "
    "`framebench versions compare` judges them within blocks."
)


def write_histories(source: SourceFolder, results: Results, records: list[Record]) -> list[str]:
    """Write the pages for which there is something, and return their paths."""
    written = []
    commits = read_commits(results.root)
    if commits:
        written.append(write_history(source, "histories/commits", "Commits", COMMITS, commits))
    releases = asv.read_release_benchmarks(records, asv_history.read_plans(results.root))
    if releases:
        written.append(write_history(source, "histories/releases", "Releases", RELEASES, releases))
    return written


def read_commits(results: Path) -> list[asv.Benchmark]:
    """Return asv's histories of commits; nothing where no series has two points."""
    if not asv.has_several_commits(results):
        return []
    try:
        with tempfile.TemporaryDirectory() as folder:
            asv.publish_histories(results, Path(folder) / "asv")
            benchmarks = asv.read_benchmarks(Path(folder) / "asv")
    except asv.Unpublished:
        return []
    for benchmark in benchmarks:
        if any(len(series.points) > 1 for series in benchmark.series):
            return benchmarks
    return []


def write_history(
    source: SourceFolder, path: str, title: str, text: str, benchmarks: Sequence[asv.Benchmark]
) -> str:
    """Write a page with a table for each benchmark."""
    page = Page(source, path, title)
    page.add_markdown(text)
    for benchmark in benchmarks:
        page.add_heading(benchmark.name)
        page.add_html(render("history.html", benchmark=benchmark))
    return page.save()
