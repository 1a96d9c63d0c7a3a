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
# # How does memory grow with the batch?
#
# The peak is a fixed part (weights, gradients, optimizer) and a part for each sample: a straight
# line through the measured batches has both.

# %%
import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

import framebench

COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
df = framebench.load()
sns.set_theme(style="whitegrid")
base = df.query("usable and baseline and scenario in ('train', 'eval')")
curves = base.groupby(["workload", "scenario", "framework"]).filter(
    lambda case: case["batch"].nunique() > 1
)


def line(case: pd.DataFrame) -> pd.Series:
    per_sample, fixed = np.polyfit(case["batch"], case["host_rss_bytes"] / 2**20, 1)
    return pd.Series({"fixed MiB": fixed, "MiB per sample": per_sample, "batches": len(case)})


curves.groupby(["workload", "scenario", "framework"])[["batch", "host_rss_bytes"]].apply(
    line
).round(1)

# %% [markdown]
# ## Twice the batch
#
# Growth by doubling, from the smallest to the largest measured batch.

# %%
ends = curves.sort_values("batch").groupby(["workload", "scenario", "framework"])[
    ["batch", "host_rss_bytes"]
]
growth = ends.last() / ends.first()
memory = growth["host_rss_bytes"].pow(1 / np.log2(growth["batch"]))
finding = (
    f"Twice the batch takes {memory.min():.2f} to {memory.max():.2f} times the memory "
    f"(median {memory.median():.2f})."
)
display(Markdown(f"**{finding}**"))

grid = sns.relplot(
    curves.assign(mib=curves["host_rss_bytes"] / 2**20),
    kind="line",
    x="batch",
    y="mib",
    hue="framework",
    style="scenario",
    col="workload",
    markers=True,
    palette=COLOURS,
    height=3.4,
    facet_kws={"sharex": False},
)
for axes in grid.axes.flat:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
grid.set_axis_labels("batch", "peak by host.rss, MiB")
sns.despine()
