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

COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
FRAMEWORKS = list(COLOURS)
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
first = base[base["first_step_s"].notna() & base["step_time_s"].notna()]
first = first.assign(steps=first["first_step_s"] / first["step_time_s"])
grid = sns.catplot(
    first,
    kind="strip",
    jitter=False,
    x="steps",
    y="framework",
    order=FRAMEWORKS,
    hue="framework",
    hue_order=FRAMEWORKS,
    palette=COLOURS,
    col="workload",
    height=2.4,
    aspect=1.2,
)
grid.set_titles("{col_name}").set(xscale="log")
grid.set_axis_labels("first step / a later step", "")
sns.despine()
