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
from itertools import pairwise

import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

import framebench
from framebench.analysis.results import Results
from framebench.versions import judge as versions

df = framebench.load(versions="all")
sns.set_theme(style="whitegrid")
df.groupby(["framework", "framework_version"]).agg(
    cases=("case", "size"), usable=("usable", "sum"), last=("measured_at", "max")
)

# %%
records = Results(framebench.folder()).get_records(df["machine"].iloc[0])
found = [
    row
    for framework, group in df.groupby("framework")
    for old, new in pairwise(versions.sort_versions(group["framework_version"].dropna()))
    for row in versions.compare_versions(records, f"{framework}=={old}", f"{framework}=={new}")
]
judged = pd.DataFrame(found, columns=versions.QuantityComparison._fields)
pd.crosstab([judged["change"], judged["quantity"]], judged["verdict"])

# %% [markdown]
# ## Version against version
#
# Above 1 is worse: more memory, or more time.

# %%
counts = judged["verdict"].value_counts()
worse, better = (
    judged[judged["verdict"] == verdict] for verdict in (versions.REGRESSION, versions.IMPROVEMENT)
)
finding = (
    f"Of {len(judged)} comparisons of two versions {len(worse)} show a regression and "
    f"{len(better)} an improvement; the others "
    f"show no difference that matters, or are undecided or too few."
)
display(Markdown(f"**{finding}**"))

grid = sns.catplot(
    judged.dropna(subset="ratio"),
    kind="strip",
    jitter=False,
    x="ratio",
    y="change",
    hue="verdict",
    hue_order=[
        verdict
        for verdict in versions.VERDICTS
        if verdict in set(judged.dropna(subset="ratio")["verdict"])
    ],
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
