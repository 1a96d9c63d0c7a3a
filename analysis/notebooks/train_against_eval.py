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
# A forward pass that nobody differentiates can drop each activation at once. One that keeps the graph, because gradients were
# left on, holds what training would hold. Between the two lies one line of code.

# %%
from analysis import frames, tables
from analysis.figures import heat, parts, train_eval
from analysis.notebook import measured, show

said = measured()
table = frames.current(said.table)
show(*(figure for _, figure in train_eval(table)))

# %% [markdown]
# ## Every way to evaluate
#
# The baseline is evaluation without gradients, so a ratio above 1 is what carelessness costs.

# %%
evaluation = table[table["scenario"] == "eval"]
show(*(figure for _, figure in heat(evaluation)))

# %% [markdown]
# ## Where the peak of an evaluation goes

# %%
show(*(figure for _, figure in parts(evaluation)))

# %% [markdown]
# ## What this says

# %%
leaky = evaluation[(evaluation["strategy"] == "grad") & evaluation["peak_ratio"].notna()]
for row in leaky.to_dict("records"):
    longer = tables.number(row["time_ratio"], ".2f")
    show(
        f"- {row['workload']} in {row['framework']}, batch {row['batch']}: with gradients left on the peak is "
        f"{tables.number(row['peak_ratio'], '.2f')} times that of an evaluation without ({row['peak_instrument']})"
        + ("." if longer == "-" else f", and a step takes {longer} times as long.")
    )
