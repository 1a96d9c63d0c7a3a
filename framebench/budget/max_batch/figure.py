"""How large a batch fits into a budget?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import Asked, page
from framebench.analysis.results import Results
from framebench.analysis.searches import read
from framebench.records.record import case_of
from framebench.records.search import Fit


def figures(results: Results, machines: Iterable[str]) -> Iterator[Asked]:
    """One for each workload, scenario, size and budget that was searched on the first of these machines."""
    search_rows = searches(results.root, next(iter(machines)))
    for key, group in search_rows.groupby(["workload", "scenario", "size", "budget_bytes"]) if len(search_rows) else ():
        workload, scenario, size, budget = key
        yield f"largest-{workload}-{scenario}-{int(str(budget)) / MIB:.0f}MiB{rows.size_suffix(str(size))}", largest, group


def searches(results: Path, machine: str) -> pd.DataFrame:
    """What `framebench max-batch` found on a machine: a row for each case and budget, the newest. `largest` is 0 where nothing
    fits, `answer` says it in words. Files that cannot be read are named in a warning."""
    every = pd.DataFrame([_search(fit) for fit in read(results) if fit.provenance.machine == machine])
    return every if every.empty else every.sort_values("measured_at").drop_duplicates(["case", "budget_bytes"], keep="last")


def _search(fit: Fit) -> dict[str, object]:
    case, proof = case_of(fit.case), fit.provenance
    return {
        "case": fit.case, "workload": case.workload, "framework": case.framework, "scenario": case.scenario,
        "strategy": case.strategy, "size": case.size, "budget_bytes": fit.budget_bytes, "largest": fit.largest or 0,
        "answer": answer(fit), "framework_version": proof.versions.get(case.framework), "machine": proof.machine,
        "cpu": proof.hardware.get("cpu", "unknown"), "measured_at": proof.measured_at.isoformat(),
        "commit": (proof.commit or "unknown")[:10] + (" with uncommitted changes" if proof.dirty else ""),
    }  # fmt: skip


def answer(fit: Fit) -> str:
    """The batch, or why there is none."""
    if fit.largest:
        return {"open": f"{fit.largest} or more", "stopped": f"{fit.largest}, stopped"}.get(fit.status, str(fit.largest))
    return {"none": "not even the smallest"}.get(fit.status, fit.status)


@page.styled
def largest(search_rows: pd.DataFrame) -> Figure | None:
    """`search_rows`: `searches` of one workload, scenario and budget. None where nothing fits."""
    if not search_rows["largest"].any():
        return None
    ranked = search_rows.sort_values(["largest", "case"], ascending=[False, True])
    ranked = ranked.assign(framework=ranked["framework"].map(rows.NAMES))
    ranked["case"] = ranked["framework"] + " " + ranked["strategy"]
    grid = sns.catplot(
        ranked, kind="bar", x="largest", y="case", hue="framework", palette=page.COLOURS, saturation=1,
        height=0.7 + 0.24 * len(ranked), aspect=7.0 / (0.7 + 0.24 * len(ranked)), legend=False,
    )  # fmt: skip
    for i, r in enumerate(rows.each(ranked)):
        grid.ax.annotate(r.answer, (max(r.largest, 1), i), (4, 0), textcoords="offset points", va="center", size=7)
    grid.ax.set_xscale("log", base=2)
    grid.ax.xaxis.set_major_formatter(page.PLAIN)
    grid.ax.set(xlim=(1, 2 * ranked["largest"].max()), xlabel="largest batch that fits", ylabel="")
    return page.explained(grid.figure, _largest_title(ranked), _largest_notes(ranked))


def _largest_title(ranked: pd.DataFrame) -> str:
    first = ranked.iloc[0]
    best = rows.join_words(ranked["case"][ranked["largest"] == first["largest"]])
    where = f"{first['workload']} {first['scenario']} within {first['budget_bytes'] / MIB:,.0f} MiB"
    return f"{where}: {best} fits the largest batch, {first['answer']}"


def _largest_notes(ranked: pd.DataFrame) -> list[str]:
    versions = sorted(set(ranked["framework"] + " " + ranked["framework_version"].fillna("")))
    return [
        "Searched by framebench max-batch under an enforced limit; MiB = 2^20 bytes. The loss was only seen to be finite. "
        '"Or more": no larger batch was allowed.',
        f"Machine {ranked['machine'].iloc[0]} ({ranked['cpu'].iloc[0]}); {', '.join(versions)}; measured "
        f"{rows.format_range(ranked['measured_at'].str[:10], '{}')} at {', '.join(sorted(set(ranked['commit'])))}.",
    ]
