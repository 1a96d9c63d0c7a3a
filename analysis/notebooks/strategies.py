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
# # Which memory strategy is worth what?
#
# Every strategy against the baseline of its own framework, at the same batch, with the same
# weights. `shared_ratio` is the peak and `time_ratio` the step time, each over the baseline's; one
# instrument reads the peaks of every framework. A case is `usable` if its results were verified and
# the strategy was seen to take effect.

# %%
import seaborn as sns
from IPython.display import Markdown, display

import framebench

COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
FRAMEWORKS = list(COLOURS)
df = framebench.load()
sns.set_theme(style="whitegrid")
train = df.query(
    "scenario == 'train' and usable and same_mathematics and not baseline and not only_for_claims"
)

by = train.groupby("strategy")
overview = by.agg(
    cases=("shared_ratio", "count"),
    peak=("shared_ratio", "median"),
    worst=("shared_ratio", "max"),
    timed=("time_ratio", "count"),
    time=("time_ratio", "median"),
)
overview = overview.sort_values("peak")
overview.round(2)

# %% [markdown]
# ## What is left of the peak
#
# A dot is one case, a bar the median of all. Drawn are the strategies that were measured most
# widely; the table has all.

# %%
often = overview[overview["cases"] >= overview["cases"].max() / 2]
best = often.iloc[0]
finding = (
    f"Of the {len(often)} strategies that were measured most widely {often.index[0]} leaves the "
    "least: a median of "
    f"{best['peak']:.2f} of the baseline's peak in {best['cases']:.0f} cases"
    + (
        f", for a median of {best['time']:.2f} times the step time in {best['timed']:.0f} of them."
        if best["timed"]
        else "."
    )
    + ("" if train["time_ratio"].notna().any() else " Times are being measured anew in blocks.")
)
display(Markdown(f"**{finding}**"))

shown = train[train["strategy"].isin(often.index)]
order = list(often.index)
grid = sns.catplot(
    shown,
    kind="strip",
    jitter=False,
    x="shared_ratio",
    y="strategy",
    order=order,
    hue="framework",
    hue_order=FRAMEWORKS,
    palette=COLOURS,
    height=4.5,
    aspect=1.3,
)
sns.scatterplot(often, x="peak", y="strategy", marker="|", s=160, color="black", ax=grid.ax)
grid.refline(x=1).set_axis_labels("peak memory / baseline's", "")
sns.despine()
