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
# # What did an upgrade cost?
#
# The same cases in several versions of a framework, each version in an environment of its own. Only
# processes of one block can show a difference in time: what shares fewer than three is `too few`
# (framebench/versions/judge.py).

# %%
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

import framebench

df = framebench.load(versions="all")
sns.set_theme(style="whitegrid")
df.groupby(["framework", "framework_version"], observed=True).agg(
    cases=("case", "size"), usable=("usable", "sum"), last=("measured_at", "max")
)

# %%
machine = df["machine"].iloc[0]
judged = framebench.releases(machine=machine)
if judged.empty:
    one_release = f"{machine} measured one release of each framework: framebench versions run."
    display(Markdown(f"**{one_release}**"))
pd.crosstab([judged["change"], judged["quantity"]], judged["verdict"])

# %% [markdown]
# ## Version against version
#
# Above 1 is worse: more memory, or more time.

# %%
worse = judged[judged["verdict"] == "regression"]
better = judged[judged["verdict"] == "improvement"]
finding = (
    f"Of {len(judged)} comparisons of two versions {len(worse)} show a regression and "
    f"{len(better)} an improvement; the others "
    f"show no difference that matters, or are undecided or too few."
)
if not judged.empty:
    display(Markdown(f"**{finding}**"))

rated = judged.dropna(subset="ratio")
if not rated.empty:
    grid = sns.catplot(
        rated,
        kind="strip",
        jitter=False,
        x="ratio",
        y="change",
        hue="verdict",
        hue_order=sorted(rated["verdict"].unique()),
        col="quantity",
        sharex=False,
        palette="colorblind",
        height=3,
    )
    grid.refline(x=1)
    grid.set_titles("{col_name}").set_axis_labels("new version / old version", "")
    sns.despine()

# %% [markdown]
# ## Where it got worse

# %%
worse.set_index("case")[["base", "change", "quantity", "ratio", "low", "high", "blocks"]].round(2)
