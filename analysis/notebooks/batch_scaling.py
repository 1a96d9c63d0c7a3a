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
# # How do memory and speed grow with the batch?
#
# The peak is a fixed part (weights, gradients, optimizer) and a part for each sample. Both can be read off a line through
# measured batches, and so can the largest batch that fits, as far as the line holds.

# %%
from analysis import frames, predict
from analysis.figures import curves, largest
from analysis.notebook import measured, show

said = measured()
table = frames.current(said.table)
show(*(figure for _, figure in curves(table)))

# %% [markdown]
# ## A line through the measured batches, tested on the batch left out

# %%
show(*predict.comparisons(table))

# %% [markdown]
# ## The largest batch under a cap
#
# Searched by `framebench fit`, under a limit that the kernel enforces.

# %%
show(*(figure for _, figure in largest(said.machine, said.results)))

# %% [markdown]
# ## What this says

# %%
for (workload, framework, scenario, strategy, size), group in table[table["status"] == "ok"].groupby(
    ["workload", "framework", "scenario", "strategy", "size"]
):
    group = group.sort_values("batch")
    first, last = group.iloc[0], group.iloc[-1]
    if last["batch"] > first["batch"] and first["peak_instrument"] == last["peak_instrument"]:
        show(
            f"- {workload} {scenario} `{strategy}` in {framework}, size {size}: {last['batch'] / first['batch']:g} times the "
            f"batch ({first['batch']} to {last['batch']}) needs {last['peak_bytes'] / first['peak_bytes']:.2f} times the "
            f"memory ({last['peak_instrument']}), for {last['throughput'] / first['throughput']:.2f} times the throughput."
        )
