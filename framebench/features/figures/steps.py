"""What does the first step cost, and how much of a step is overhead?"""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import page

ENOUGH = 3  # strategies beside the baseline, for a figure of its own
FIRST_NOTE = "First step: the first of a single process, with the compilation that it triggers."


@page.styled
def first_steps(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload and scenario. Seconds of the first step of each strategy; None with too few of them."""
    group = rows.shown(df)
    measured = rows.in_order(group[group["usable"] & group["first_step_s"].notna()])
    strategies = measured["strategy"].cat.categories
    if len(strategies) <= ENOUGH:
        return None
    height = 0.9 + 0.17 * len(strategies)
    grid = sns.relplot(
        measured, x="first_step_s", y="strategy", hue="framework", style="framework", palette=page.COLOURS, s=45, height=height,
        aspect=7.0 / height,
    )  # fmt: skip
    grid.set(xscale="log", xlabel="first step, seconds", ylabel="", ylim=(len(strategies) - 0.4, -0.6))
    grid.ax.xaxis.set_major_formatter(page.PLAIN)
    note = f"{FIRST_NOTE} {rows.batches(measured)}"
    return page.explained(grid.figure, _first_title(measured), rows.footer(group, note))


def _first_title(measured: pd.DataFrame) -> str:
    """The baseline's first step in steady steps."""
    base = measured[measured["baseline"]].dropna(subset="step_time_s")
    cost = rows.listed(f"{r.first_step_s / r.step_time_s:,.1f} in {r.framework}" for r in rows.each(base))
    head = f"{measured['workload'].iloc[0]} {measured['scenario'].iloc[0]}: "
    if not cost:
        return f"{head}how long the first step takes"
    return f"{head}the first {base['strategy'].iloc[0]} step takes as long as later ones times {cost}"


WORTH = 0.01
SHARES = {"wait_share": "waiting for input", "collector_share": "Python's collector"}
SHARES_NOTE = "Shares of the wall-clock time of a step. Shown are strategies with more than 1 % of either in some framework."


@page.styled
def shares(df: pd.DataFrame) -> Figure | None:
    """`df`: one size. What of a step goes to waiting for input, and to Python's collector; None where nothing does."""
    group = pd.concat([rows.shown(scenario_rows) for _, scenario_rows in df.groupby(["workload", "scenario"])])
    group["place"] = group["workload"] + " " + group["scenario"] + " " + group["strategy"].astype(str)
    # 0 where it was not measured: the step did not wait, or ran without the clock on the collector
    group[[*SHARES]] = group[[*SHARES]].where(group["usable"]).fillna(0.0)
    lossy = group[group["place"].isin(group["place"][(group[[*SHARES]] > WORTH).any(axis=1)])]
    if lossy.empty:
        return None
    long = lossy[lossy["usable"]].melt(["place", "framework"], [*SHARES], "what", "share")
    height = 0.9 + 0.3 * lossy["place"].nunique()
    grid = sns.catplot(
        long.assign(what=long["what"].map(SHARES), percent=100 * long["share"]), kind="bar", x="percent", y="place", col="what",
        hue="framework", palette=page.COLOURS, height=height, aspect=3.6 / height,
        saturation=1,
    )  # fmt: skip
    grid.set_titles("{col_name}").set_axis_labels("% of the step", "")
    return page.explained(grid.figure, _shares_title(lossy), rows.footer(lossy, f"{SHARES_NOTE} Size {df['size'].iloc[0]}."))


def _shares_title(group: pd.DataFrame) -> str:
    """Where each of the two is largest."""
    clauses = []
    for column, text in SHARES.items():
        most = group.sort_values(column).iloc[-1]
        if most[column] > WORTH:
            clauses.append(f"{text} takes up to {most[column] * 100:.0f} % of a step ({most['framework']}, {most['place']})")
    text = "; ".join(clauses)
    return text[:1].upper() + text[1:]
