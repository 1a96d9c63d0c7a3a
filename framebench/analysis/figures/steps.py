"""What does the first step cost, and how much of a step is overhead?"""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import page

ENOUGH = 3  # strategies next to the baseline, for a figure of its own
FIRST_NOTE = "First step: the first of a single process, with the compilation that it triggers."
WORTH = 0.01  # of a step: a smaller share is not shown
SHARES = {"wait_share": "waiting for input", "collector_share": "Python's collector"}
SHARES_NOTE = (
    "Shares of the wall-clock time of a step. Shown are strategies with more than 1 % "
    "of either in some framework."
)


@page.apply_style
def draw_first_steps(df: pd.DataFrame) -> Figure | None:
    """Draw the seconds of the first step of each strategy; None with too few of them.

    `df` has the rows of one workload and scenario.
    """
    group = rows.select_shown(df)
    measured = rows.order_by_catalog(group[group["usable"] & group["first_step_s"].notna()])
    strategies = measured["strategy"].cat.categories
    if len(strategies) <= ENOUGH:
        return None
    height = 0.9 + 0.17 * len(strategies)
    grid = sns.relplot(
        measured,
        x="first_step_s",
        y="strategy",
        hue="framework",
        style="framework",
        palette=page.COLOURS,
        markers=page.FRAMEWORK_MARKERS,
        s=45,
        height=height,
        aspect=7.0 / height,
    )
    grid.set(xlabel="first step, seconds", ylabel="", ylim=(len(strategies) - 0.4, -0.6))
    seconds = measured["first_step_s"]
    page.set_logarithmic(grid.ax.xaxis, seconds.min(), seconds.max())
    note = f"{FIRST_NOTE} {rows.describe_batches(measured)}"
    return page.explain_figure(
        grid.figure, make_first_steps_title(measured), rows.make_footer(group, note)
    )


def make_first_steps_title(measured: pd.DataFrame) -> str:
    """Return the baseline's first step in steady steps."""
    head = rows.name_scenario(measured)
    base = measured[measured["baseline"]].dropna(subset="step_time_s")
    if base.empty:
        return f"{head}: how long the first step takes"
    costs = []
    for row in rows.iterate_rows(base):
        costs.append(f"{row.first_step_s / row.step_time_s:,.1f} in {row.framework}")
    return (
        f"{head}: the first {base['strategy'].iloc[0]} step takes as long as later ones times "
        f"{rows.join_words(costs)}"
    )


@page.apply_style
def draw_shares(df: pd.DataFrame) -> Figure | None:
    """Draw the shares of a step that go to waiting for input, and to Python's collector.

    `df` has the rows of one size. Returns None where nothing does.
    """
    scenarios = df.groupby(["workload", "scenario"])
    group = pd.concat([rows.select_shown(scenario_rows) for _, scenario_rows in scenarios])
    scenario_names = group["workload"] + " " + group["scenario"]
    group["place"] = scenario_names + " " + group["strategy"].astype(str)
    columns = list(SHARES)
    # 0 where it was not measured: the step did not wait, or ran without the clock on the collector
    group[columns] = group[columns].where(group["usable"]).fillna(0.0)
    is_worth = (group[columns] > WORTH).any(axis=1)
    # of a strategy that is shown every framework is
    lossy = group[group["place"].isin(group["place"][is_worth])]
    if lossy.empty:
        return None
    largest = lossy[columns].max()
    drawn = list(largest[largest > WORTH].index)  # a panel without bars says nothing
    long = lossy[lossy["usable"]].melt(["place", "framework"], drawn, "what", "share")
    height = 0.9 + 0.3 * lossy["place"].nunique()
    grid = sns.catplot(
        long.assign(what=long["what"].map(SHARES), percent=100 * long["share"]),
        kind="bar",
        x="percent",
        y="place",
        col="what",
        hue="framework",
        palette=page.COLOURS,
        height=height,
        aspect=3.6 / height,
        saturation=1,
    )
    grid.set_titles("{col_name}").set_axis_labels("% of the step", "")
    note = f"{SHARES_NOTE} Size {df['size'].iloc[0]}."
    return page.explain_figure(grid.figure, make_shares_title(lossy), rows.make_footer(lossy, note))


def make_shares_title(group: pd.DataFrame) -> str:
    """Return where each of the two is largest."""
    clauses = []
    for column, what in SHARES.items():
        most = group.sort_values(column).iloc[-1]
        if most[column] > WORTH:
            where = f"{most['framework']}, {most['place']}"
            clauses.append(f"{what} takes up to {most[column] * 100:.0f} % of a step ({where})")
    text = "; ".join(clauses)
    return text[:1].upper() + text[1:]  # `capitalize` would change the names
