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
# # Does evaluation really need less?
#
# A forward pass that nobody differentiates can drop each activation at once. One that keeps the
# graph, because gradients were left on, holds what training would hold. Between the two lies one
# line of code.

# %%
import matplotlib.pyplot as plt
import seaborn as sns
from IPython.display import Markdown, display

import framebench

COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
FRAMEWORKS = list(COLOURS)
df = framebench.load()
sns.set_theme(style="whitegrid")
kinds = {
    "train/fp32": "training",
    "eval/grad": "gradients left on",
    "eval/no_grad": "without gradients",
}
df["kind"] = (df["scenario"] + "/" + df["strategy"]).map(kinds)
peaks = (
    df[df.usable]
    .pivot_table("host_rss_bytes", index=["workload", "framework", "batch"], columns="kind")
    .dropna()
    / 2**20
)
peaks[list(kinds.values())].round(1)  # MiB, by host.rss

# %% [markdown]
# ## What evaluation takes of training's peak

# %%
ratios = peaks.div(peaks["training"], axis=0).drop(columns="training")
ranges = {kind: f"{r.min():.2f} to {r.max():.2f}" for kind, r in ratios.items()}
finding = (
    f"Evaluation takes {ranges['without gradients']} of the peak of training with the same batch; "
    "where gradients are left on, "
    f"{ranges['gradients left on']}."
)
display(Markdown(f"**{finding}**"))

long = ratios.melt(ignore_index=False, value_name="ratio").reset_index()
grid = sns.catplot(
    long,
    kind="bar",
    x="workload",
    y="ratio",
    hue="framework",
    hue_order=FRAMEWORKS,
    col="kind",
    palette=COLOURS,
    saturation=1,
    errorbar=None,
    height=3.4,
)
grid.refline(y=1)
grid.set_titles("{col_name}").set_axis_labels("", "peak / training's")
sns.despine()

# %% [markdown]
# ## Every way to evaluate
#
# The baseline is evaluation without gradients, so a ratio above 1 is what carelessness costs.

# %%
evaluation = df.query("scenario == 'eval' and usable and base_batch and not only_for_claims")
table = evaluation.pivot_table(
    "relative_peak", index="strategy", columns=["workload", "framework"], observed=True
)
table = table.loc[table.median(axis=1).sort_values().index]
figure, axes = plt.subplots(figsize=(8, 0.35 * len(table) + 1.5))
sns.heatmap(table, annot=True, fmt=".2f", cmap="vlag", center=1, vmax=3, ax=axes)
axes.set(xlabel="", ylabel="")
figure.tight_layout()
