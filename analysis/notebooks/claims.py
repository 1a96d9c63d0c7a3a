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
# What is claimed about memory strategies, against what was measured here. A verdict is computed from an interval, by the rule
# of docs/claims.md; what cannot be measured on this machine says why.

# %%
from collections import Counter

from analysis.claims import ledger, table
from analysis.claims.rule import FAILED
from analysis.notebook import measured, show
from analysis.results import Results

said = measured()
entries = ledger(Results(said.results), said.machine)
counts = Counter(entry.verdict for entry in entries)
show(f"{len(entries)} claims on machine {said.machine}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))

# %% [markdown]
# ## The ledger

# %%
show(table(entries))

# %% [markdown]
# ## What to do instead
#
# The claims that were measured and did not hold.

# %%
for entry in entries:
    if entry.verdict in FAILED:
        show(f"- **{entry.id}** ({entry.verdict}: claimed {entry.claimed}, measured {entry.measured}): {entry.recommendation}")
