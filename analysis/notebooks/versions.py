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
# The same cases in several versions of a framework, each version in an environment of its own. Only processes that were run in
# turn can show a difference in time; where there are too few of them, the table says so instead of a verdict.

# %%
from analysis.notebook import measured, show
from analysis.reports import versions
from framebench.records import store

said = measured()
found = [r for r in store.read_all(said.results) if r.provenance.machine == said.machine]
known = {(r.parsed.framework, r.framework_version) for r in found if r.framework_version}
for framework in sorted({framework for framework, _ in known}):
    of_it = sorted(version for name, version in known if name == framework and version)
    show(f"- {framework}: {', '.join(of_it)}")

# %% [markdown]
# ## Version against version

# %%
show(*versions.comparisons(found))

# %% [markdown]
# ## What this says
#
# A regression is a ratio whose whole interval lies beyond the smallest difference that matters.

# %%
made = list(versions.comparisons(found))
if not made:
    show("No two versions of one framework have records of the same case on this machine: nothing can be said.")
for comparison in made:
    at = comparison.head.index("verdict")
    counts = {verdict: sum(row[at].startswith(verdict) for row in comparison.rows) for verdict in versions.VERDICTS}
    show(f"- {comparison.title}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n))
