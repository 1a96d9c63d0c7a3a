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
# # Is one framework heavier than another?
#
# Peaks can be compared across frameworks only if the same instrument read them. On a CPU that is
# `host.rss`: live tensors before the step, plus what the resident memory grew by during it. The
# frameworks' own counters are finer, and each is its own.

# %%
import seaborn as sns
from IPython.display import Markdown, display

import framebench
from framebench.analysis.figures import COLOURS
from framebench.analysis.figures.steps import draw_first_steps

df = framebench.load()
sns.set_theme(style="whitegrid")
base = df.query("usable and baseline and scenario in ('train', 'eval')")

place = ["workload", "scenario", "batch", "size"]
peaks = base.pivot_table("host_rss_bytes", index=place, columns="framework").dropna() / 2**20
peaks.round(1)  # MiB

# %% [markdown]
# ## The same model, the same batch
#
# The table above, each framework's peak over PyTorch's.

# %%
ratios = peaks.div(peaks["torch"], axis=0).drop(columns="torch")
phrases = [
    f"{name} peaks at a median of {r.median():.2f} times torch's peak ({r.min():.2f} to "
    f"{r.max():.2f})"
    for name, r in ratios.items()
]
finding = f"With the same batch {' and '.join(phrases)}, over {len(ratios)} baselines."
display(Markdown(f"**{finding}**"))

long = ratios.melt(ignore_index=False, value_name="ratio").reset_index()
grid = sns.relplot(
    long,
    kind="line",
    x="batch",
    y="ratio",
    hue="framework",
    style="workload",
    col="scenario",
    markers=True,
    palette=COLOURS,
    height=3.6,
)
grid.refline(y=1)
grid.set(xscale="log", xticks=(ticks := sorted(long["batch"].unique())), xticklabels=ticks)
grid.set_axis_labels("batch", "peak by host.rss / PyTorch's")
sns.despine()

# %% [markdown]
# ## What is paid before the first result
#
# What is compiled ahead is paid in the first step.

# %%
draw_first_steps(df.query("workload == 'transformer' and scenario == 'train'"))
