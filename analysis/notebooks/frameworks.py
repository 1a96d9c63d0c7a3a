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
# Peaks can be compared across frameworks only if the same instrument read them. On a CPU that is `host.rss`: live tensors
# before the step, plus what the resident memory grew by during it. The frameworks' own counters are finer, and each is its own.

# %%
from analysis import frames, tables
from analysis.figures import curves, first_steps
from analysis.figures.rows import frameworks
from analysis.notebook import measured, show
from framebench.suite.registry import BASELINES

said = measured()
table = frames.current(said.table)
base = table[table["strategy"] == table["scenario"].map(BASELINES)]
show(*tables.frameworks(table))

# %% [markdown]
# ## The batch decides
#
# Fixed costs fade with a larger batch. A framework that looks heavy at batch 4 need not be so at batch 16.

# %%
show(*(figure for _, figure in curves(base)))

# %% [markdown]
# ## The first step
#
# What is compiled ahead is paid in the first step.

# %%
show(*(figure for _, figure in first_steps(table[table["scenario"] == "train"])))

# %% [markdown]
# ## What this says

# %%
shared = base[(base["status"] == "ok") & base["host_rss_bytes"].notna()]
for (workload, scenario, batch, size), group in shared.groupby(["workload", "scenario", "batch", "size"]):
    least, most = (group.loc[getattr(group["host_rss_bytes"], f)()] for f in ("idxmin", "idxmax"))
    fast, slow = (group.loc[getattr(group["step_time_s"], f)()] for f in ("idxmin", "idxmax"))
    if len(frameworks(group.to_dict("records"))) > 1:
        show(
            f"- {workload} {scenario}, batch {batch}, size {size}: {most['framework']} peaks at "
            f"{most['host_rss_bytes'] / least['host_rss_bytes']:.2f} times the {least['framework']} peak (host.rss); "
            f"{slow['framework']} takes {slow['step_time_s'] / fast['step_time_s']:.2f} times as long as {fast['framework']}."
        )
