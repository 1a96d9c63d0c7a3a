"""How do memory and throughput grow with the batch, and how large a batch fits into a budget?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from pydantic import ValidationError

from analysis.figures import page, rows
from analysis.tables import GIB, MIB, Line, groups, missing
from framebench.measure.max_batch import Fit
from framebench.records.record import case_of
from framebench.records.store import RecordWarning
from framebench.suite.registry import BASELINES
from framebench.suite.strategy import FRAMEWORKS

CROSSES = {
    True: "Crosses: memory ran out, drawn at the limit.",
    False: "Crosses: memory ran out at an unknown peak; at the panel's edge.",
}
Curve = tuple[str, str]  # framework and strategy


def curves(table: pd.DataFrame, limit: int | None = None) -> Iterator[tuple[str, Figure]]:
    """A figure for each workload, scenario and size with a strategy that was measured at several batches; `limit` in bytes."""
    for (workload, scenario, size), found in groups(table.to_dict("records"), "workload", "scenario", "size"):
        several = {key: group for key, group in groups(found, "framework", "strategy") if spans(group)}
        by_curve = {key: several[key] for key in sorted(several, key=lambda k: (FRAMEWORKS.index(k[0]), k[1]))}
        if by_curve:
            yield f"batches-{workload}-{scenario}{rows.suffix(size)}", figure(by_curve, limit)  # type: ignore[arg-type]


def spans(group: list[Line]) -> bool:
    """Whether there are numbers for one batch at least, and for another one numbers, or the news that memory ran out."""
    shown = {r["batch"] for r in group if rows.usable(r)}
    return bool(shown) and len(shown | {r["batch"] for r in group if r["status"] == "oom"}) > 1


@page.styled
def figure(by_curve: dict[Curve, list[Line]], limit: int | None) -> Figure:
    """A panel for each instrument of the peaks, and one for throughput."""
    every = [r for group in by_curve.values() for r in group]
    shared = rows.shared_peak(every)
    read = {shared[1]: shared[0]} if shared else {name: "peak_bytes" for name in rows.instruments(every)}
    size = every[0]["size"]
    notes = rows.footer(every, " ".join([f"Size {size}. GiB = 2^30 bytes.", *crosses(every, limit)]), read_by=", ".join(read))
    drawn, body = page.page(title(by_curve, read), notes, 1.9 + 3.6 * (len(read) + 1), 3.4)
    panels = body.subplots(1, len(read) + 1, squeeze=False)[0]
    for axes, (instrument, column) in zip(panels, read.items()):
        own = {k: g for k, g in by_curve.items() if shared or instrument in rows.instruments(g)}
        lines(axes, own, column, 1 / GIB)
        if limit and limit / GIB > axes.get_ylim()[1]:
            axes.set_ylim(top=1.1 * limit / GIB)
        if limit:
            axes.axhline(limit / GIB, color="black", linestyle="--", linewidth=1)
        mark_failures(axes, own, None if limit is None else limit / GIB, top=True)
        axes.set(title=f"peak memory by {instrument}", ylabel="GiB")
    lines(panels[-1], by_curve, "throughput", 1)
    mark_failures(panels[-1], by_curve, None, top=False)
    panels[-1].set(title="throughput", ylabel=f"{every[0]['unit']} / s")
    entries = [page.key(marker(k), page.COLOURS[k[0]], f"{page.NAMES[k[0]]} {k[1]}", dash(g)) for k, g in by_curve.items()]
    body.legend(handles=entries, loc="outside right upper", frameon=False)
    return drawn


def lines(axes: Axes, by_curve: dict[Curve, list[Line]], column: str, unit: float) -> None:
    """Both axes in powers of two."""
    for curve, group in by_curve.items():
        found = sorted((r["batch"], r[column] * unit) for r in group if rows.usable(r) and not missing(r[column]))
        if found:
            style: dict[str, Any] = {"color": page.COLOURS[curve[0]], "marker": marker(curve), "linestyle": dash(group)}
            axes.plot(*zip(*found), markersize=5, linewidth=1.4, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    whole_octaves(axes)
    axes.set_xticks(sorted({r["batch"] for group in by_curve.values() for r in group}))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("batch")
    page.plain(axes)


def whole_octaves(axes: Axes) -> None:
    """From the power of two below the data to the one above: there are always two ticks to read by."""
    known = [float(y) for line in axes.lines for y in line.get_ydata()]  # type: ignore[union-attr, arg-type]
    if known:
        axes.set_ylim(2.0 ** math.floor(math.log2(min(known) / 1.05)), 2.0 ** math.ceil(math.log2(max(known) * 1.05)))


def marker(curve: Curve) -> str:
    return "o" if curve[1] in BASELINES.values() else "s"


def dash(group: list[Line]) -> str:
    return "-" if rows.baseline(group[0]) else "--"


def mark_failures(axes: Axes, by_curve: dict[Curve, list[Line]], at: float | None, top: bool) -> None:
    """A cross for each batch that ran out of memory: at the limit, or at the panel's edge if that is unknown."""
    where: dict[str, Any] = {"transform": axes.get_xaxis_transform()} if at is None else {}
    height = at if at is not None else 0.97 if top else 0.03
    for (framework, _), group in by_curve.items():
        lost = [r["batch"] for r in group if r["status"] == "oom"]
        if lost:
            axes.plot(lost, [height] * len(lost), "x", color=page.COLOURS[framework], markersize=8, markeredgewidth=2, **where)


def crosses(every: list[Line], limit: int | None) -> list[str]:
    return [CROSSES[limit is not None]] if any(r["status"] == "oom" for r in every) else []


def title(by_curve: dict[Curve, list[Line]], read: dict[str, str]) -> str:
    """How much the baseline's peak and throughput grow from its smallest to its largest batch."""
    parts, spans_ = [], []
    for (framework, _), group in by_curve.items():
        found = sorted((r for r in group if rows.usable(r) and rows.baseline(r)), key=lambda r: r["batch"])
        if len(found) > 1:
            first, last = found[0], found[-1]
            column = next(iter(read.values()))
            parts.append((framework, last[column] / first[column], last["throughput"] / first["throughput"]))
            spans_.append((first["batch"], last["batch"]))
    some = next(iter(by_curve.values()))[0]
    head = f"{some['workload']} {some['scenario']}"
    if not parts:
        return f"{head}: how peak and throughput grow with the batch"
    grown = rows.listed(
        [f"{rows.times(peak)} the peak for {rows.times(speed)} the throughput in {page.NAMES[f]}" for f, peak, speed in parts]
    )
    low, high = min(s[0] for s in spans_), max(s[1] for s in spans_)
    return (
        f"{head}, from batch {low} to {high}: {grown}"
        if len(set(spans_)) == 1
        else f"{head}, from smallest to largest batch: {grown}"
    )


def largest(machine: str, results: Path | None) -> Iterator[tuple[str, Figure]]:
    """A figure for each workload, scenario, size and budget that `framebench fit` searched on this machine."""
    found = fits(machine, results) if results else []
    by: dict[tuple[str, str, str, int], list[Fit]] = {}
    for fit in found:
        workload, _, scenario, _, _, size = fit.case.split("/")
        by.setdefault((workload, scenario, size, fit.budget_bytes), []).append(fit)
    for (workload, scenario, size, budget), group in sorted(by.items()):
        if any(fit.largest for fit in group):
            name = f"largest-{workload}-{scenario}-{budget / MIB:.0f}MiB{rows.suffix(size)}"
            yield name, largest_figure(group)


def fits(machine: str, results: Path) -> list[Fit]:
    """The newest search for each case and budget, versions as they come; files that cannot be read are named in a warning."""
    newest: dict[tuple[str, int], Fit] = {}
    for path in sorted((results / "fits" / machine).rglob("*.json")):
        try:
            fit = Fit.model_validate_json(path.read_bytes())
            case_of(fit.case)
        except (OSError, ValidationError, ValueError) as error:
            warnings.warn(f"skipped {path}: {str(error).splitlines()[0]}", RecordWarning, stacklevel=2)
            continue
        key = fit.case, fit.budget_bytes
        if key not in newest or fit.provenance.measured_at > newest[key].provenance.measured_at:
            newest[key] = fit
    return list(newest.values())


@page.styled
def largest_figure(group: list[Fit]) -> Figure:
    ranked = sorted(group, key=lambda f: (f.largest or 0, f.case))
    drawn, body = page.page(largest_title(ranked), largest_notes(ranked), 7.5, 0.7 + 0.24 * len(ranked))
    axes = body.subplots()
    for i, fit in enumerate(ranked):
        framework = fit.case.split("/")[1]
        if fit.largest:
            axes.plot([1, fit.largest], [i, i], color=page.COLOURS[framework], linewidth=1, alpha=0.5)
            axes.plot(fit.largest, i, ">" if fit.status == "open" else "o", color=page.COLOURS[framework])
        axes.annotate(said(fit), (fit.largest or 1, i), (7, 0), textcoords="offset points", va="center", size=7)
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(ranked)), [f"{page.NAMES[f.case.split('/')[1]]} {f.case.split('/')[3]}" for f in ranked])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlabel="largest batch that fits", ylim=(-0.6, len(ranked) - 0.4))
    axes.margins(x=0.12)
    page.plain(axes, "x")
    return drawn


def said(fit: Fit) -> str:
    """The batch, or why there is none."""
    if fit.largest:
        return {"open": f"{fit.largest} or more", "stopped": f"{fit.largest}, stopped"}.get(fit.status, str(fit.largest))
    return {"none": "not even the smallest"}.get(fit.status, fit.status)


def largest_title(ranked: list[Fit]) -> str:
    workload, _, scenario, *_ = ranked[0].case.split("/")
    best = [f for f in ranked if f.largest == ranked[-1].largest]
    names = rows.listed([f"{page.NAMES[f.case.split('/')[1]]} {f.case.split('/')[3]}" for f in best])
    budget = ranked[0].budget_bytes / MIB
    return f"{workload} {scenario} within {budget:,.0f} MiB: {names} fits the largest batch, {said(best[0])}"


def largest_notes(ranked: list[Fit]) -> list[str]:
    proofs = [f.provenance for f in ranked]
    versions = sorted(
        {f"{name} {v}" for f in ranked for name, v in f.provenance.versions.items() if name == f.case.split("/")[1]}
    )
    days = sorted({p.measured_at.date().isoformat() for p in proofs})
    commits = sorted({(p.commit or "unknown")[:10] + (" with uncommitted changes" if p.dirty else "") for p in proofs})
    return [
        "Searched by framebench fit under an enforced limit; MiB = 2^20 bytes. The loss was only seen to be finite. Triangle: "
        "no larger batch was allowed.",
        f"Machine {proofs[0].machine} ({proofs[0].hardware.get('cpu', 'unknown')}); {', '.join(versions)}; measured "
        f"{' to '.join(dict.fromkeys((days[0], days[-1])))} at {', '.join(commits)}.",
    ]
