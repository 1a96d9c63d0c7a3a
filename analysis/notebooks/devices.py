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
# # What would an H100 need?
#
# Nothing here is measured. XLA's compiler plans JAX's step for a GPU that is not here, and
# PyTorch's step is simulated with a GPU's kernels and its allocator (docs/devices.md says how far
# that is off). The two count different things, so ratios are to the baseline of the same framework.
# Nothing is said of speed.

# %%
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

import framebench

COLOURS = {"torch": "#d55e00", "jax": "#0173b2"}
df = framebench.planned()
df = df[df["pinned"] & (df["ranks"] == 1)]
sns.set_theme(style="whitegrid")
pd.crosstab([df["device"], df["workload"], df["size"]], [df["framework"], df["outcome"]])

# %% [markdown]
# ## What strategies leave of the baseline
#
# In training, at the batch for which most strategies were planned.

# %%
place = ["device", "workload", "size", "framework"]
single = df[
    (df["scenario"] == "train")
    & df["ratio"].notna()
    & ~df["strategy"].str.contains("+", regex=False)
]
most = single.groupby(place)["batch"].transform(lambda batches: batches.mode()[0])
base = single[single["batch"] == most]
full = base[(base["device"] == "h100-80gb") & (base["size"] == "full") & ~base["baseline"]]
everywhere = (
    full.groupby(["framework", "strategy"])["ratio"].agg(["median", "count"]).query("count == 3")
)
least = {
    name: group["median"].sort_values().head(1) for name, group in everywhere.groupby("framework")
}
(torch, torch_ratio), (jax, jax_ratio) = (
    (least[name].index[0][1], least[name].iloc[0]) for name in ("torch", "jax")
)
finding = (
    f"On an H100 {torch} leaves the least of PyTorch's baseline among the strategies planned for "
    "all three workloads, a median "
    f"of {torch_ratio:.2f}; of JAX's {jax} does, with {jax_ratio:.2f}."
)
display(Markdown(f"**{finding}**"))

shown = full[
    full["strategy"].isin(
        everywhere.query("abs(median - 1) > 0.05").index.get_level_values("strategy")
    )
]
grid = sns.catplot(
    shown,
    kind="strip",
    jitter=False,
    x="ratio",
    y="strategy",
    hue="framework",
    col="workload",
    palette=COLOURS,
    height=4.2,
    aspect=0.7,
)
grid.refline(x=1)
grid.set_titles("{col_name}").set_axis_labels("bytes / baseline's", "")
sns.despine()

# %% [markdown]
# ## How the batch grows
#
# Bytes that the framework takes from the GPU. Grey: what an A100 of 40 GB and an H100 of 80 GB
# have.

# %%
curves = df[(df["device"] == "h100-80gb") & (df["size"] == "full") & (df["scenario"] == "train")]
curves = curves[curves["strategy"].isin(["fp32", "amp_bf16", "checkpoint"])]
curves = curves.assign(MiB=curves["reserved_bytes"].fillna(curves["needs_bytes"]) / 2**20)
grid = sns.relplot(
    curves,
    kind="line",
    marker="o",
    x="batch",
    y="MiB",
    hue="strategy",
    style="framework",
    col="workload",
    palette="colorblind",
    facet_kws={"sharex": False, "sharey": False},
    height=3.6,
    aspect=0.8,
)
grid.set_titles("{col_name}")
for axes in grid.axes.flat:
    for memory in df["device_bytes"].unique() / 2**20:
        axes.axhline(memory, color="0.6", linewidth=0.8)
