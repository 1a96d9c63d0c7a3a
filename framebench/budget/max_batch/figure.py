"""How large a batch fits into a budget?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.rendering import MIB
from framebench.analysis.results import Results
from framebench.analysis.rows import format_size_suffix, iterate_rows, join_words
from framebench.analysis.searches import load_searches
from framebench.records.record_base import parse_case
from framebench.records.search import Fit
from framebench.strategies.strategy import TITLES
from framebench.suite.counting import format_span


def figures(results: Results, machines: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure for each workload, scenario, size and budget that was searched.

    The searches are those of the first of these machines.
    """
    search_rows = read_searches(results.root, next(iter(machines)))
    if search_rows.empty:
        return
    for key, group in search_rows.groupby(["workload", "scenario", "size", "budget_bytes"]):
        workload, scenario, size, budget = key
        suffix = format_size_suffix(str(size))
        name = f"largest-{workload}-{scenario}-{int(str(budget)) / MIB:.0f}MiB{suffix}"
        yield name, draw_largest, group


def read_searches(results: Path, machine: str) -> pd.DataFrame:
    """Return the searches of a machine, as a table.

    A row is the newest search of a case and budget. `largest` is 0 where nothing fits, `answer`
    says it in words. Files that cannot be read are named in a warning.
    """
    rows = []
    for fit in load_searches(results):
        if fit.provenance.machine == machine:
            rows.append(make_row(fit))
    searches = pd.DataFrame(rows)
    if searches.empty:
        return searches
    newest = searches.sort_values("measured_at")
    return newest.drop_duplicates(["case", "budget_bytes"], keep="last")


def make_row(fit: Fit) -> dict[str, object]:
    """Return the columns of a search."""
    case, provenance = parse_case(fit.case), fit.provenance
    commit = (provenance.commit or "unknown")[:10]
    return asdict(case) | {
        "case": fit.case,
        "budget_bytes": fit.budget_bytes,
        "largest": fit.largest or 0,
        "answer": fit.describe_largest(),
        "framework_version": provenance.versions.get(case.framework),
        "machine": provenance.machine,
        "cpu": provenance.hardware.get("cpu", "unknown"),
        "measured_at": provenance.measured_at.isoformat(),
        "commit": f"{commit} with uncommitted changes" if provenance.dirty else commit,
    }


@page.apply_style
def draw_largest(search_rows: pd.DataFrame) -> Figure | None:
    """Draw the searches of one workload, scenario and budget. Returns None where nothing fits."""
    if not search_rows["largest"].any():
        return None
    ranked = search_rows.sort_values(["largest", "case"], ascending=[False, True])
    ranked = ranked.assign(framework=ranked["framework"].map(TITLES))
    ranked["case"] = ranked["framework"] + " " + ranked["strategy"]
    height = 0.7 + 0.24 * len(ranked)  # inches
    grid = sns.catplot(
        ranked,
        kind="bar",
        x="largest",
        y="case",
        hue="framework",
        palette=page.COLOURS,
        saturation=1,
        height=height,
        aspect=7.0 / height,
        legend=False,
    )
    for index, row in enumerate(iterate_rows(ranked)):
        grid.ax.annotate(
            row.answer,
            xy=(max(row.largest, 1), index),  # the end of the bar; a logarithmic axis has no 0
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=7,
        )
    grid.ax.set_xscale("log", base=2)
    grid.ax.xaxis.set_major_formatter(page.PLAIN)
    grid.ax.set(xlim=(1, 2 * ranked["largest"].max()), xlabel="largest batch that fits", ylabel="")
    first = next(iterate_rows(ranked))
    best = ranked["case"][ranked["largest"] == first.largest]
    verb = "fits" if len(best) == 1 else "fit"
    question = f"{first.workload} {first.scenario} within {first.budget_bytes / MIB:,.0f} MiB"
    finding = f"{question}: {join_words(best)} {verb} the largest batch, {first.answer}"
    versions = sorted(set(ranked["framework"] + " " + ranked["framework_version"].fillna("")))
    days = ranked["measured_at"].str[:10]
    notes = [
        "Searched by framebench max-batch under an enforced limit; MiB = 2^20 bytes. The loss was "
        "only seen to be finite. "
        '"Or more": no larger batch was allowed.',
        f"Machine {first.machine} ({first.cpu}); {', '.join(versions)}; measured "
        f"{format_span(days.min(), days.max())} at {', '.join(sorted(set(ranked['commit'])))}.",
    ]
    return page.explain_figure(grid.figure, finding, notes)
