"""Where does the peak go, and what does evaluation need of it?"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.breakdown import EXPLAINED, PARTS, breakdown
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import page
from framebench.suite.registry import BASELINES

PALETTE: dict[str, Any] = dict(
    zip([*PARTS, "rest"], ("#56b4e9", "#949494", "#cc78bc", "#ece133", "#ca9161", "#de8f05", "#dddddd"))
)
BEYOND = 4.0  # what takes so many times the baseline's peak ends at the panel's edge, with its peak as a number
NOTE = f"Coloured: the lower bound. Grey: the rest of the measured peak, which the black tick marks ({EXPLAINED})."


@page.styled
def parts(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload and scenario. A panel for each framework, a bar for each strategy; None without measured peaks."""
    group = rows.shown(df)
    split = breakdown(group[group["usable"]])
    if split.empty:
        return None
    measured = rows.in_order(group[group["strategy"].isin(split["strategy"])])
    strategies, frameworks = measured["strategy"].cat.categories, measured["framework"].cat.categories
    base = split["step_bytes"][split["baseline"]].max() / MIB
    end = min(1.05 * split["step_bytes"].max() / MIB, BEYOND * base if base > 0 else math.inf)
    figure, panels = plt.subplots(
        1, len(frameworks), figsize=(2.0 + 2.6 * len(frameworks), 0.8 + 0.19 * len(strategies)), sharex=True, sharey=True,
        squeeze=False,
    )  # fmt: skip
    for axes, framework in zip(panels[0], frameworks):
        framework_rows = measured[measured["framework"] == framework].set_index("strategy").reindex(strategies)
        _stacked(axes, end, split[split["framework"] == framework].set_index("strategy").reindex(strategies), framework_rows)
        axes.set_title(rows.heading(framework, measured), color=page.COLOURS[framework])
        axes.set_xlim(0, end)
    figure.tight_layout()
    handles = dict(zip(*reversed(panels[0][0].get_legend_handles_labels())))
    figure.legend(handles.values(), handles, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=len(handles), frameon=False)
    return page.explained(figure, _parts_title(split), rows.footer(group, f"{NOTE} {rows.batches(measured)}"))


def _stacked(axes: Axes, end: float, split: pd.DataFrame, measured: pd.DataFrame) -> None:
    """Bars of the parts, a tick at the peak; what has no numbers says why."""
    bars = split[[*PARTS, "rest"]].clip(lower=0).div(MIB)
    bars.plot.barh(stacked=True, color=PALETTE, width=0.72, linewidth=0, legend=False, ax=axes)
    axes.plot(split["step_bytes"] / MIB, range(len(split)), "|", color="black", markersize=8, markeredgewidth=1.4)
    for place, peak in enumerate(split["step_bytes"] / MIB):
        if peak > end:
            axes.annotate(f"{peak:,.0f}", (end, place), (-3, 0), textcoords="offset points", ha="right", va="center", size=6)
    why = rows.outcome(measured).fillna("-").where(split["lower_bound"].isna())
    for place, reason in enumerate(why):
        if isinstance(reason, str):
            axes.annotate(reason, (0, place), (3, 0), textcoords="offset points", va="center", size=6, color="0.55")
    axes.set(xlabel="MiB", ylabel="", ylim=(len(split) - 0.4, -0.6))
    axes.grid(False, axis="y")
    sns.despine(ax=axes, left=True)


def _parts_title(split: pd.DataFrame) -> str:
    """The baseline's peak over its lower bound, and what most of the bound is."""
    base = split[split["baseline"]]
    name = f"{split['workload'].iloc[0]} {split['scenario'].iloc[0]}"
    if base.empty:
        return f"{name}: where the peak goes"
    over = rows.listed(f"{r.peak_over_bound:.2f} times in {r.framework}" for r in rows.each(base))
    shares = base[[*PARTS]].div(base["lower_bound"], axis=0)
    largest = shares.mean().idxmax()
    most = rows.between(shares[largest] * 100, "{:.0f}")
    return f"{name} ({base['strategy'].iloc[0]}): the peak is {over} the lower bound; {most} % of the bound: {largest}"


KINDS = {
    ("train", BASELINES["train"]): "training",
    ("eval", "grad"): "evaluation,\ngradients left on",
    ("eval", BASELINES["eval"]): "evaluation\nwithout gradients",
}
TRAINING, LEFT_ON, WITHOUT = KINDS.values()


@page.styled
def train_eval(df: pd.DataFrame) -> Figure | None:
    """`df`: one size. Training, evaluation that keeps the graph, and evaluation without; a panel for each workload that has the
    first and the last by one instrument."""
    wanted = kinds(df)
    usable_rows = wanted[wanted["usable"]]
    if len(rows.instruments(usable_rows)) != 1:
        return None
    usable_rows = usable_rows.assign(mib=usable_rows["shared_bytes"] / MIB)
    grid = sns.catplot(
        usable_rows, kind="bar", x="kind", y="mib", hue="framework", col="workload", order=[*KINDS.values()],
        palette=page.COLOURS,
        sharey=False, height=3.0, aspect=1.15, saturation=1,
    )  # fmt: skip
    training = usable_rows[usable_rows["kind"] == TRAINING].set_index(["workload", "framework"])["mib"]
    for workload, axes in grid.axes_dict.items():
        for framework, bars in zip(usable_rows["framework"].cat.categories, axes.containers):
            axes.bar_label(
                bars, [f"{bar.get_height() / training[workload, framework]:.2f}" for bar in bars], size=6.5, padding=1
            )
        axes.set_title(f"{workload}, batch {rows.usual_batch(usable_rows[usable_rows['workload'] == workload])}")
    grid.set_axis_labels("", "peak MiB")
    note = f"MiB = 2^20 bytes. Size {df['size'].iloc[0]}. Numbers: ratio to training."
    return page.explained(grid.figure, _train_eval_title(usable_rows), rows.footer(wanted, note))


def kinds(df: pd.DataFrame) -> pd.DataFrame:
    """Of each workload the rows of KINDS at the batch that most have, of frameworks that have the first and the last."""
    kind = pd.Series([KINDS.get(place) for place in zip(df["scenario"], df["strategy"])], df.index, dtype="object")
    wanted = df.assign(kind=kind)[kind.notna()]
    right = wanted[wanted["usable"]]
    usual = right.groupby("workload")["batch"].agg(lambda batches: batches.mode().min())
    both = right[right["batch"] == right["workload"].map(usual)].groupby(["workload", "framework"])["kind"].agg(set)
    shown = both.index[both.map({TRAINING, WITHOUT}.issubset)]
    at = wanted[wanted["batch"] == wanted["workload"].map(usual)]
    return rows.in_order(at[pd.MultiIndex.from_frame(at[["workload", "framework"]]).isin(shown)])


def _train_eval_title(usable_rows: pd.DataFrame) -> str:
    """Ranges over the workloads, framework by framework."""
    wide = usable_rows.pivot(index=["framework", "workload"], columns="kind", values="mib")
    ratios = wide.div(wide[TRAINING], axis=0)

    def ranges(kind: str) -> str:
        by = ratios[kind].dropna().groupby("framework", observed=True) if kind in ratios else ()
        return rows.listed(f"{rows.between(values)} in {framework}" for framework, values in by)

    leaky = ranges(LEFT_ON)
    return f"Evaluation takes {ranges(WITHOUT)} the peak of training" + (f"; with gradients left on {leaky}" if leaky else "")
