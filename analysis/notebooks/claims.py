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
# # Are the articles right?
#
# What is claimed about memory strategies, against what was measured here, and on a GPU at full
# size. A verdict is computed from an interval, by the rule of docs/claims.md; what cannot be
# measured on this machine says why.

# %%
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

import framebench

# measured, and less than what is claimed
FAILED = ["smaller than claimed", "opposite", "no effect", "smaller or none"]
sns.set_theme(style="whitegrid")
pd.options.display.max_colwidth = None
claims = framebench.ledger().set_index(["id", "part"])
counts = pd.crosstab(claims["source"], claims["verdict"])
counts

# %% [markdown]
# ## How often they hold
#
# The sources are named in docs/claims.md.

# %%
failed = claims["verdict"].isin(FAILED)
held = claims["verdict"].isin(["confirmed", "larger than claimed"])
finding = (
    f"{claims.index.unique('id').size} claims, of which some are judged in parts, took "
    f"{len(claims)} verdicts: "
    f"{held.sum()} confirmed, {failed.sum()} smaller than claimed, opposite or without an "
    "effect worth having, "
    f"{(claims['verdict'] == 'undecided').sum()} undecided; the others no measurement decides, or "
    "none was made."
)
display(Markdown(f"**{finding}**"))

axes = sns.heatmap(counts.T, annot=True, fmt="d", cmap="Greys", cbar=False)
axes.figure.set_size_inches(4, 2.6)
sns.despine(left=True, bottom=True)

# %% [markdown]
# ## What to do instead
#
# The claims that were measured and did not hold.

# %%
claims.loc[failed, ["says", "verdict", "claimed", "recommendation"]]
