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
# Every strategy against the baseline of its own framework, at the same batch, with the same weights: how much of the peak is
# left, and how much of the speed. A strategy that was not seen at work, or whose loss was wrong, has no number here.

# %%
from analysis import frames, tables
from analysis.figures import heat, pareto, parts, support
from analysis.figures.rows import same_model, usable
from analysis.notebook import measured, show

said = measured()
table = frames.current(said.table)
train = table[table["scenario"] == "train"]
show(f"Machine {said.machine}: {len(table)} cases, {(table['status'] == 'ok').sum()} of them with numbers.")

# %% [markdown]
# ## What a strategy saves, and what it costs
#
# Up and left is better. The line is the front: for a given peak nothing above it was measured. Across the panels nothing may be
# compared but shapes, as each framework has a baseline and an instrument of its own.

# %%
show(*(figure for _, figure in pareto(train)))

# %% [markdown]
# ## All of them, one by one
#
# Read down a column.

# %%
show(*(figure for _, figure in heat(train)))

# %% [markdown]
# ## Why some save nothing
#
# A strategy can save only what is there. Where weights and optimizer fill the peak, recomputing activations is of little use; a
# long grey part is what the framework takes beyond the least, and neither batch nor precision need shrink that.

# %%
show(*(figure for _, figure in parts(train)))

# %% [markdown]
# ## In the other scenarios

# %%
others = table[~table["scenario"].isin(["train", "eval"])]
show(*(figure for _, figure in heat(others)))

# %% [markdown]
# ## Which exist at all
#
# Whether a framework has a strategy is no matter of measurement; docs/strategies.md has the reasons.

# %%
show(*(figure for _, figure in support(table)))

# %% [markdown]
# ## What this says

# %%
same = [r for r in train.to_dict("records") if usable(r) and same_model(r) and not tables.missing(r["peak_ratio"])]
for (workload, framework, batch, size), group in tables.groups(same, "workload", "framework", "batch", "size"):
    best = min(group, key=lambda r: r["peak_ratio"])
    less = tables.mib(best["peak_bytes"], ",.0f")
    if len(group) > 1:
        cost = "" if tables.missing(best["time_ratio"]) else f", with steps {best['time_ratio']:.2f} times as long"
        show(
            f"- {workload} in {framework}, batch {batch}, size {size}: of {len(group)} ways to train the same model "
            f"`{best['strategy']}` has the smallest peak, {less} MiB (2^20 bytes) by {best['peak_instrument']}: "
            f"{best['peak_ratio']:.2f} of the baseline's{cost}."
        )
