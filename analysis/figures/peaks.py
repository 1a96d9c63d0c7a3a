"""Where does the peak go, and what does evaluation need of it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.figures import bars, page, rows
from analysis.figures.bars import Bar
from analysis.reports.breakdown import PARTS, breakdown
from analysis.tables import GIB, MIB, Line, groups, missing
from framebench.suite.registry import BASELINES

PALETTE = dict(zip(PARTS, ("#56b4e9", "#949494", "#cc78bc", "#ece133", "#ca9161", "#de8f05")))
REST = "#dddddd"
PARTS_NOTE = (
    "MiB = 2^20 bytes. Coloured: the floor, the least that any implementation needs at its worst moment "
    "(analysis/lower_bound.py). Grey: the rest of the measured peak, which the black tick marks: workspaces, gradients of "
    "activations, fragmentation, what is kept beyond the least. Peaks of two panels may be read by two instruments: compare "
    "within one."
)


def parts(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """A figure for each workload, scenario and size; a panel for each framework, a bar for each strategy."""
    for (workload, scenario, size), found in groups(table.to_dict("records"), "workload", "scenario", "size"):
        group = rows.one_batch(found)
        if any(rows.usable(r) and not missing(r["peak_bytes"]) for r in group):
            yield f"parts-{workload}-{scenario}{rows.suffix(size)}", parts_figure(group)


@page.styled
def parts_figure(group: list[Line]) -> Figure:
    shown = rows.worth_a_row(group)
    split = {r["case"]: r for r in breakdown(pd.DataFrame([r for r in shown if rows.usable(r)])).to_dict("records")}
    order, frameworks = rows.in_table_order(shown), rows.frameworks(shown)
    notes = rows.footer(group, f"{PARTS_NOTE} {rows.batches(shown)}")
    drawn, body = page.page(
        parts_title(list(split.values())), notes, 2.0 + 3.0 * max(2, len(frameworks)), 0.8 + 0.2 * len(order)
    )
    panels = {}
    for framework in frameworks:
        by = {r["strategy"]: split.get(r["case"], r) for r in rows.of(shown, framework)}
        panels[framework] = rows.heading(framework, shown), [parts_bar(by.get(name)) for name in order]
    used = {p: PALETTE[p] for p in PARTS if any(r[p] for r in split.values())}
    bars.panels(body, order, panels, "MiB", {**used, "rest": REST})
    return drawn


def parts_bar(r: Line | None) -> Bar | str:
    if r is None or "floor" not in r:
        return bars.instead(r)
    stack = [(r[part] / MIB, PALETTE[part]) for part in PARTS]
    return Bar([*stack, (max(r["rest"], 0) / MIB, REST)], tick=r["peak_bytes"] / MIB)


def parts_title(split: list[Line]) -> str:
    """The baseline's peak over its floor, and what most of the floor is."""
    base = [r for r in split if rows.baseline(r)]
    if not base:
        return f"{split[0]['workload']} {split[0]['scenario']}: where the peak goes"
    over = [f"{r['peak_over_floor']:.2f} times in {page.NAMES[r['framework']]} ({r['peak_instrument']})" for r in base]
    largest = max(PARTS, key=lambda p: float(np.mean([r[p] / r["floor"] for r in base])))
    share = sorted(round(r[largest] / r["floor"] * 100) for r in base)
    most = " to ".join(dict.fromkeys((f"{share[0]}", f"{share[-1]}")))
    name = f"{base[0]['workload']} {base[0]['scenario']} ({base[0]['strategy']})"
    return f"{name}: the peak is {rows.listed(over)} the floor; {most} % of the floor: {largest}"


KINDS = (("train", BASELINES["train"]), ("eval", "grad"), ("eval", BASELINES["eval"]))
LABELS = ("training", "evaluation, gradients left on", "evaluation without gradients")
HATCHES = ("", "////", "")
FADE = (1.0, 0.55, 0.3)


def train_eval(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """One figure for each size: training, evaluation that keeps the graph, and evaluation without."""
    wanted = [r for r in table.to_dict("records") if (r["scenario"], r["strategy"]) in KINDS]
    for (size,), found in groups(wanted, "size"):
        by_workload = {w[0]: triples(group) for w, group in groups(found, "workload")}
        full = {w: t for w, t in by_workload.items() if t}
        if full:
            yield f"train-eval{rows.suffix(size)}", train_eval_figure(full)


def triples(found: list[Line]) -> dict[str, tuple[Line, Line | None, Line]]:
    """By framework: the three at the smallest batch that most frameworks have, if one instrument read them all."""
    by_batch: dict[int, dict[str, tuple[Line, Line | None, Line]]] = {}
    for (batch, framework), group in groups(found, "batch", "framework"):
        kinds = {(r["scenario"], r["strategy"]): r for r in group}
        train, grad, plain = (kinds.get(kind) for kind in KINDS)
        if train and plain and rows.usable(train) and rows.usable(plain):
            by_batch.setdefault(batch, {})[framework] = (train, grad, plain)
    if not by_batch:
        return {}
    most = by_batch[min(by_batch, key=lambda b: (-len(by_batch[b]), b))]
    best = {f: most[f] for f in rows.frameworks(lines_of(most))}
    return best if rows.shared_peak(lines_of(best)) else {}


def lines_of(found: dict[str, tuple[Line, Line | None, Line]]) -> list[Line]:
    return [r for triple in found.values() for r in triple if r]


@page.styled
def train_eval_figure(by_workload: dict[str, dict[str, tuple[Line, Line | None, Line]]]) -> Figure:
    every = [r for found in by_workload.values() for r in lines_of(found)]
    _, instrument = rows.shared_peak(every) or ("", "")
    sizes = ", ".join(f"{w} batch {lines_of(t)[0]['batch']}" for w, t in by_workload.items())
    note = f"GiB = 2^30 bytes. {sizes}, size {every[0]['size']}. Numbers: ratio to training."
    drawn, body = page.page(
        train_eval_title(by_workload), rows.footer(every, note, read_by=instrument), 1.5 + 3.0 * max(2, len(by_workload)), 3.2
    )
    panels = body.subplots(1, len(by_workload), squeeze=False)[0]
    for axes, (workload, found) in zip(panels, by_workload.items()):
        train_eval_panel(axes, found)
        axes.set(title=workload, ylabel="peak GiB" if axes is panels[0] else "")
    entries = [Patch(facecolor="0.4", alpha=a, hatch=h, edgecolor="white", label=t) for t, h, a in zip(LABELS, HATCHES, FADE)]
    body.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False)
    return drawn


def train_eval_panel(axes: Axes, found: dict[str, tuple[Line, Line | None, Line]]) -> None:
    column, _ = rows.shared_peak(lines_of(found)) or ("peak_bytes", "")
    for i, (framework, triple) in enumerate(found.items()):
        whole = triple[0][column]
        for j, (r, hatch, fade) in enumerate(zip(triple, HATCHES, FADE)):
            at = i + (j - 1) * 0.27
            if r is None or not rows.usable(r):
                axes.text(
                    at,
                    0,
                    "not measured" if r is None else rows.outcome(r),
                    rotation=90,
                    ha="center",
                    va="bottom",
                    size=6,
                    color="0.5",
                )
                continue
            style: dict[str, Any] = {"color": page.COLOURS[framework], "alpha": fade, "hatch": hatch, "edgecolor": "white"}
            axes.bar(at, r[column] / GIB, 0.25, linewidth=0, **style)
            axes.annotate(
                f"{r[column] / whole:.2f}" if j else "",
                (at, r[column] / GIB),
                (0, 2),
                textcoords="offset points",
                ha="center",
                size=6.5,
            )
    axes.set_xticks(range(len(found)), [page.NAMES[f] for f in found])
    axes.margins(y=0.08)
    page.plain(axes, "y")


def train_eval_title(by_workload: dict[str, dict[str, tuple[Line, Line | None, Line]]]) -> str:
    """Ranges over the workloads, framework by framework."""
    without: dict[str, list[float]] = {}
    left_on: dict[str, list[float]] = {}
    for found in by_workload.values():
        column, _ = rows.shared_peak(lines_of(found)) or ("peak_bytes", "")
        for framework, (train, grad, plain) in found.items():
            without.setdefault(framework, []).append(plain[column] / train[column])
            if grad and rows.usable(grad):
                left_on.setdefault(framework, []).append(grad[column] / train[column])
    lean = rows.listed([f"{rows.between(v)} in {page.NAMES[f]}" for f, v in without.items()])
    leaky = rows.listed([f"{rows.between(v)} in {page.NAMES[f]}" for f, v in left_on.items()])
    return f"Evaluation takes {lean} the peak of training" + (f"; with gradients left on {leaky}" if leaky else "")
