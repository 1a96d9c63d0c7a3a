# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Six plots of a comparison
#
# Peak by strategy, throughput against batch, memory against speed, releases over time, a map of
# savings, and everything relative to the baseline: each from `framebench.load()` by pandas and
# seaborn alone. Before them the frameworks side by side, and what a sample adds. A plot that these
# records cannot fill says what to measure.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display
from matplotlib.ticker import MaxNLocator

import framebench

df = framebench.load()
sizes = df.loc[df["usable"] & df["throughput"].notna(), "size"]
if sizes.empty:  # nothing was timed
    sizes = df["size"]
size = sizes.mode()[0]  # one size alone: peaks and throughputs of two do not compare
df = df[df["usable"] & df["same_mathematics"] & (df["size"] == size)]
df = df.assign(MiB=df["shared_bytes"] / 2**20)
training = df[(df["scenario"] == "train") & df["kind"].isin(["baseline", "memory", "speed"])]
at_base = training[training["base_batch"]]

sns.set_theme(style="whitegrid")
COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
FRAMEWORKS = [name for name in COLOURS if name in set(training["framework"])]
PLACE = f"{df['machine'].iloc[0]}, {df['device'].iloc[0]}, size {size}"
display(Markdown(f"{len(training)} cases of training on {PLACE}."))


def select_several(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the strategies that were measured at two batches or more."""
    batches = rows.groupby(["workload", "framework", "strategy"])["batch"]
    return rows[batches.transform("nunique") > 1]


def draw_by_batch(rows: pd.DataFrame, y: str, label: str) -> sns.FacetGrid:
    """Draw a line for each strategy and framework, a panel for each workload."""
    grid = sns.relplot(
        rows,
        kind="line",
        marker="o",
        x="batch",
        y=y,
        hue="strategy",
        style="framework",
        col="workload",
        palette="colorblind",
        facet_kws={"sharex": False, "sharey": False},
        height=3.6,
        aspect=0.9,
    )
    grid.set_titles("{col_name}").set_axis_labels("batch", label)
    for workload, axes in grid.axes_dict.items():
        batches = sorted(rows.loc[rows["workload"] == workload, "batch"].unique())
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, batches)
        axes.set_ylim(bottom=0)
    return grid


# %% [markdown]
# ## Frameworks side by side
#
# Peaks can be compared across frameworks only if the same instrument read them. Each baseline's
# peak over that of the first framework below, with the same batch.

# %%
base = df[df["baseline"] & df["scenario"].isin(["train", "eval"])]
peaks = base.pivot_table(
    "MiB", index=["workload", "scenario", "batch"], columns="framework", observed=True
)
peaks[FRAMEWORKS].div(peaks[FRAMEWORKS[0]], axis=0).dropna(how="all").round(2)

# %% [markdown]
# ## What a sample adds
#
# The peak is a fixed part (weights, gradients, optimizer) and a part for each sample: a straight
# line through the measured batches has both, in MiB.


# %%
def fit_line(rows: pd.DataFrame) -> pd.Series:
    per_sample, fixed = np.polyfit(rows["batch"], rows["MiB"], 1)
    return pd.Series({"fixed": fixed, "per sample": per_sample, "batches": len(rows)})


several = select_several(base[base["scenario"] == "train"])
several.groupby(["workload", "framework"])[["batch", "MiB"]].apply(fit_line).round(1)

# %% [markdown]
# ## 1. Peak by strategy
#
# At the base batch, by the instrument that reads all frameworks alike. Shown are the strategies
# that were measured for most workloads and frameworks, the lowest first.

# %%
measured = at_base.groupby("strategy")["case"].count()
common = at_base[at_base["strategy"].isin(measured[measured >= measured.max() / 2].index)]
order = common.groupby("strategy")["relative_peak"].median().sort_values().index
grid = sns.catplot(
    common,
    kind="strip",
    jitter=False,
    x="MiB",
    y="strategy",
    order=order,
    hue="framework",
    hue_order=FRAMEWORKS,
    palette=COLOURS,
    col="workload",
    sharex=False,
    height=4,
    aspect=0.8,
)
grid.set_titles("{col_name}").set_axis_labels("peak, MiB", "")
for axes in grid.axes.flat:
    axes.set_xlim(left=0)

# %% [markdown]
# ## 2. Throughput against batch
#
# Samples or tokens per second.

# %%
timed = select_several(training[training["throughput"].notna()])
if timed.empty:
    none = f"No strategy was timed at two batches on {PLACE}: framebench run --profile matrix."
    display(Markdown(none))
else:
    draw_by_batch(timed, "throughput", "throughput")

# %% [markdown]
# ## 3. Memory against speed
#
# Left and up is better. Each panel has its own axes, and that of speed is logarithmic. The line
# joins what no other strategy of the framework beats in both (Pareto), with its name. The cross is
# the baseline. Strategies whose intervals overlap (`time_ratio_low`) may change places.


# %%
def select_front(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that no other beats in both, from the lowest peak to the highest."""
    ranked = rows.sort_values(["relative_peak", "relative_throughput"], ascending=[True, False])
    fastest_before = ranked["relative_throughput"].cummax().shift(fill_value=0)
    return ranked[ranked["relative_throughput"] > fastest_before]


def draw_front(axes: plt.Axes, front: pd.DataFrame, colour: str) -> None:
    """Join the strategies of a front, and name each but the baseline.

    To the left of a strategy on the front none is as fast, and to the left of the first one there
    is none at all: names there cover no point. The first one's is below, since the second may lie
    close by.
    """
    axes.plot(
        front["relative_peak"],
        front["relative_throughput"],
        drawstyle="steps-post",
        color=colour,
        linewidth=1,
    )
    named = front[~front["baseline"]]
    for number, row in enumerate(named.itertuples()):
        is_first = number == 0
        axes.annotate(
            row.strategy,
            (row.relative_peak, row.relative_throughput),
            xytext=(-4, -2 if is_first else 2),
            textcoords="offset points",
            ha="right",
            va="top" if is_first else "bottom",
            fontsize=8,
        )


rated = at_base.dropna(subset=["relative_peak", "relative_throughput"])
if rated["baseline"].all():
    display(Markdown(f"No strategy was timed next to its baseline on {PLACE}."))
else:
    grid = sns.relplot(
        rated[~rated["baseline"]],
        x="relative_peak",
        y="relative_throughput",
        hue="framework",
        hue_order=FRAMEWORKS,
        palette=COLOURS,
        row="workload",
        col="framework",
        col_order=FRAMEWORKS,
        legend=False,
        facet_kws={"sharex": False, "sharey": False},
        height=3.4,
        aspect=1.15,
    )
    grid.set_titles("{row_name}, {col_name}").refline(x=1, y=1)
    grid.set_axis_labels("peak / baseline's", "throughput / baseline's")
    for (workload, framework), axes in grid.axes_dict.items():
        axes.set_yscale("log", base=2)
        axes.plot(1, 1, "x", color="black")
        left, right = axes.get_xlim()
        axes.set_xticks([tick for tick in axes.get_xticks() if left < tick < right])
        axes.set_xlim(left - 0.75 * (right - left), right)  # room for names
        axes.margins(y=0.2)
        slowest, fastest = axes.get_ylim()
        if fastest < 4 * slowest:  # too few powers of two to read the axis by
            axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter("{x:g}")
        of_panel = (rated["workload"] == workload) & (rated["framework"] == framework)
        draw_front(axes, select_front(rated[of_panel]), COLOURS[framework])
    grid.tight_layout()

# %% [markdown]
# ## 4. Releases over time
#
# What the compiler of each release plans for an H100, relative to the oldest of them. Plans are
# not measured, and have no noise. The releases that were measured are in the notebook `versions`.

# %%
plans = framebench.planned()
plans = plans[
    (plans["device"] == "h100-80gb") & plans["used_bytes"].notna() & (plans["ranks"] == 1)
]
releases = plans.groupby("case")["framework_version"].transform("nunique")
plans = plans[releases >= 3].sort_values("framework_version")
if plans.empty:
    display(Markdown("No case was planned in three releases: framebench versions run --device."))
else:
    oldest = plans.groupby("case")["used_bytes"].transform("first")
    grid = sns.relplot(
        plans.assign(change=100 * (plans["used_bytes"] / oldest - 1)),
        kind="line",
        marker="o",
        x="framework_version",
        y="change",
        hue="strategy",
        units="case",
        estimator=None,
        col="workload",
        palette="colorblind",
        height=3.6,
        aspect=1.1,
    )
    grid.set_titles("{col_name}").refline(y=0)
    grid.set_axis_labels("release", "plan against the oldest, %")
    grid.tick_params(axis="x", rotation=45)

# %% [markdown]
# ## 5. A map of savings
#
# The peak relative to the baseline's, at the base batch. An empty place was not measured.

# %%
table = common[~common["baseline"]].pivot_table(
    "relative_peak", index="strategy", columns=["workload", "framework"]
)
table = table.loc[table.median(axis=1).sort_values().index]
figure, axes = plt.subplots(figsize=(9, 0.4 * len(table) + 1.5))
sns.heatmap(
    table, annot=True, fmt=".2f", cmap="vlag", center=1, vmax=1.5, cbar_kws={"label": "peak"}
)
axes.set(xlabel="", ylabel="")
figure.tight_layout()

# %% [markdown]
# ## 6. Relative to the baseline
#
# The same strategies by batch, each against the baseline of the same batch: what a strategy saves
# is no constant. A bar goes from the lowest peak of any session over the highest of the baseline to
# the highest over the lowest; where one session measured either, there is none.

# %%
by_batch = select_several(training)
QUESTION = ["workload", "framework", "batch"]
ends = ["step_low_bytes", "step_high_bytes"]
base = training[training["baseline"]].set_index(QUESTION)[ends].add_prefix("base_")
by_batch = by_batch[~by_batch["baseline"]].join(base, on=QUESTION)
by_batch = by_batch.assign(
    low=by_batch["step_low_bytes"] / by_batch["base_step_high_bytes"],
    high=by_batch["step_high_bytes"] / by_batch["base_step_low_bytes"],
)
if by_batch.empty:
    display(Markdown(f"No strategy was measured at two batches on {PLACE}."))
else:
    grid = draw_by_batch(by_batch, "relative_peak", "peak / baseline's").refline(y=1)
    ranged = by_batch.dropna(subset=["low", "high"])
    for workload, rows in ranged.groupby("workload"):
        grid.axes_dict[workload].vlines(
            rows["batch"], rows["low"], rows["high"], color="black", linewidth=2, zorder=3
        )
    widths = (ranged["high"] - ranged["low"]) / ranged["relative_peak"]
    counted = f"{len(ranged)} of {len(by_batch)} ratios have a bar."
    if len(ranged):
        counted += f" It is {widths.median():.1%} of its ratio in the median, and at most "
        counted += f"{widths.max():.1%}."
    display(Markdown(counted))
