"""Where does the peak go, and what does evaluation need of it?"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.breakdown import EXPLAINED, PARTS, split_peaks
from framebench.analysis.figures import page
from framebench.analysis.rendering import MIB
from framebench.strategies.registry import BASELINES

PALETTE: dict[str, Any] = {
    "parameters": "#56b4e9",
    "buffers": "#949494",
    "optimizer": "#cc78bc",
    "inputs": "#ece133",
    "gradients": "#ca9161",
    "activations": "#de8f05",
    "rest": "#dddddd",
}
# what takes so many times the baseline's peak ends at the panel's edge, with its peak as a number
BEYOND = 4.0
NOTE = (
    "Coloured: the lower bound. Grey: the rest of the measured peak, which the black tick "
    f"marks ({EXPLAINED})."
)


@page.apply_style
def draw_parts(df: pd.DataFrame) -> Figure | None:
    """Draw a panel for each framework, a bar for each strategy; None without measured peaks.

    `df` has the rows of one workload and scenario.
    """
    group = rows.select_shown(df)
    split = split_peaks(group[group["usable"]])
    if split.empty:
        return None
    measured = rows.order_by_catalog(group[group["strategy"].isin(split["strategy"])])
    strategies = measured["strategy"].cat.categories
    frameworks = measured["framework"].cat.categories
    end = 1.05 * split["step_bytes"].max() / MIB
    base = split["step_bytes"][split["baseline"]].max() / MIB
    if base > 0:  # NaN without a baseline
        end = min(end, BEYOND * base)
    size = (2.0 + 2.6 * len(frameworks), 0.8 + 0.19 * len(strategies))
    figure, panels = plt.subplots(
        1, len(frameworks), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for axes, framework in zip(panels[0], frameworks):
        of_framework = measured[measured["framework"] == framework].set_index("strategy")
        parts = split[split["framework"] == framework].set_index("strategy")
        draw_bars(axes, end, parts.reindex(strategies), of_framework.reindex(strategies))
        axes.set_title(rows.make_panel_title(framework, measured), color=page.COLOURS[framework])
        axes.set_xlim(0, end)
    figure.tight_layout()
    handles, labels = panels[0][0].get_legend_handles_labels()
    by_label = dict(zip(labels, handles))  # all panels have the same parts
    figure.legend(
        by_label.values(),
        by_label,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.01),
        ncols=len(by_label),
        frameon=False,
    )
    note = f"{NOTE} {rows.describe_batches(measured)}"
    return page.explain_figure(figure, make_parts_title(split), rows.make_footer(group, note))


def draw_bars(axes: Axes, end: float, split: pd.DataFrame, measured: pd.DataFrame) -> None:
    """Draw bars of the parts with a tick at the peak; a row without numbers says why."""
    # a peak below its lower bound would be drawn to the left
    bars = split[[*PARTS, "rest"]].clip(lower=0).div(MIB)
    bars.plot.barh(stacked=True, color=PALETTE, width=0.72, linewidth=0, legend=False, ax=axes)
    peaks = split["step_bytes"] / MIB
    axes.plot(peaks, range(len(split)), "|", color="black", markersize=8, markeredgewidth=1.4)
    for place, peak in enumerate(peaks):
        if peak > end:
            axes.annotate(
                f"{peak:,.0f}",
                (end, place),
                (-3, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                size=6,
            )
    reasons = rows.find_outcomes(measured).fillna("-").where(split["lower_bound"].isna())
    for place, reason in enumerate(reasons):
        if isinstance(reason, str):
            axes.annotate(
                reason,
                (0, place),
                (3, 0),
                textcoords="offset points",
                va="center",
                size=6,
                color="0.55",
            )
    axes.set(xlabel="MiB", ylabel="", ylim=(len(split) - 0.4, -0.6))
    axes.grid(False, axis="y")
    sns.despine(ax=axes, left=True)


def make_parts_title(split: pd.DataFrame) -> str:
    """Return the baseline's peak over its lower bound, and what most of the bound is."""
    base = split[split["baseline"]]
    name = rows.name_scenario(split)
    if base.empty:
        return f"{name}: where the peak goes"
    excesses = []
    for row in rows.iterate_rows(base):
        excesses.append(f"{row.peak_over_bound:.2f} times in {row.framework}")
    shares = base[[*PARTS]].div(base["lower_bound"], axis=0)
    largest = shares.mean().idxmax()
    share = rows.format_range(shares[largest] * 100, "{:.0f}")
    strategy = base["strategy"].iloc[0]
    return (
        f"{name} ({strategy}): the peak is {rows.join_words(excesses)} the lower bound; "
        f"{share} % of the bound: {largest}"
    )


TRAINING = "training"
LEFT_ON = "evaluation,\ngradients left on"
WITHOUT = "evaluation\nwithout gradients"
KINDS = {
    ("train", BASELINES["train"]): TRAINING,
    ("eval", "grad"): LEFT_ON,
    ("eval", BASELINES["eval"]): WITHOUT,
}


@page.apply_style
def draw_train_eval(df: pd.DataFrame) -> Figure | None:
    """Draw training, evaluation that keeps the graph, and evaluation without.

    There is a panel for each workload that has the first and the last by one instrument. `df` has
    the rows of one size.
    """
    compared = select_kinds(df)
    usable = compared[compared["usable"]]
    if len(rows.list_shared_instruments(usable)) != 1:
        return None
    usable = usable.assign(mib=usable["shared_bytes"] / MIB)
    grid = sns.catplot(
        usable,
        kind="bar",
        x="kind",
        y="mib",
        hue="framework",
        col="workload",
        order=[*KINDS.values()],
        palette=page.COLOURS,
        sharey=False,
        height=3.0,
        aspect=1.15,
        saturation=1,
    )
    training = usable[usable["kind"] == TRAINING].set_index(["workload", "framework"])["mib"]
    for workload, axes in grid.axes_dict.items():
        for framework, bars in zip(usable["framework"].cat.categories, axes.containers):
            labels = [f"{bar.get_height() / training[workload, framework]:.2f}" for bar in bars]
            axes.bar_label(bars, labels, size=6.5, padding=1)
        of_workload = usable[usable["workload"] == workload]
        axes.set_title(f"{workload}, batch {rows.find_usual_batch(of_workload)}")
    grid.set_axis_labels("", "peak MiB")
    note = f"MiB = 2^20 bytes. Size {df['size'].iloc[0]}. Numbers: ratio to training."
    return page.explain_figure(
        grid.figure, make_train_eval_title(usable), rows.make_footer(compared, note)
    )


def select_kinds(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of KINDS of each workload at the batch that most have, with the `kind`.

    Frameworks that lack training or evaluation without gradients are left out.
    """
    places = zip(df["scenario"], df["strategy"])
    kinds = pd.Series([KINDS.get(place) for place in places], df.index, dtype="object")
    of_kinds = df.assign(kind=kinds)[kinds.notna()]
    shown = []
    for _, of_workload in of_kinds.groupby("workload"):
        usual = rows.find_usual_batch(of_workload[of_workload["usable"]])
        at_usual_batch = of_workload[of_workload["batch"] == usual]
        for _, of_framework in at_usual_batch.groupby("framework"):
            usable_kinds = set(of_framework["kind"][of_framework["usable"]])
            if usable_kinds >= {TRAINING, WITHOUT}:
                shown.append(of_framework)
    if not shown:
        return of_kinds.iloc[:0]
    return rows.order_by_catalog(pd.concat(shown).sort_index())


def make_train_eval_title(usable: pd.DataFrame) -> str:
    """Return the ranges over the workloads, framework by framework."""
    wide = usable.pivot(index=["framework", "workload"], columns="kind", values="mib")
    ratios = wide.div(wide[TRAINING], axis=0)
    title = f"Evaluation takes {describe_ranges(ratios, WITHOUT)} the peak of training"
    left_on = describe_ranges(ratios, LEFT_ON)
    return f"{title}; with gradients left on {left_on}" if left_on else title


def describe_ranges(ratios: pd.DataFrame, kind: str) -> str:
    """Return the range of each framework, or nothing where none has such rows."""
    if kind not in ratios:
        return ""
    ranges = []
    for framework, values in ratios[kind].dropna().groupby("framework", observed=True):
        ranges.append(f"{rows.format_range(values)} in {framework}")
    return rows.join_words(ranges)
