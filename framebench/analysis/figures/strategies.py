"""What does each strategy do to peak and step time, in each framework?"""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import page
from framebench.analysis.frames import find_decided
from framebench.analysis.tables import describe_timing, format_time_ratios
from framebench.suite.case import Case

ROW_IN = 0.17  # height of a strategy's row in inches
LEAST_CHANGE = 0.05  # that a title counts
RANGE = math.log2(3)  # where the colours end: a third, and three times
NOTE = (
    "Ratios to the baseline of the same framework and batch: compare down a column, not across. "
    "Blue: less, orange: more. "
    "Italic: other mathematics."
)
CHANGE = LinearSegmentedColormap.from_list(
    "change", ["#01487a", "#0173b2", "#f7f7f7", "#de8f05", "#8a5700"]
)
QUANTITIES = {"relative_peak": "peak memory / baseline's", "time_ratio": "step time / baseline's"}


@page.apply_style
def draw_heat_map(df: pd.DataFrame) -> Figure | None:
    """Draw strategies down and frameworks across, once for peaks and once for times.

    `df` has the rows of one workload and scenario. Returns None if no strategy has numbers. A
    strategy without numbers in any framework is only named in the footer.
    """
    group = rows.select_shown(df)
    usable = group[group["usable"]]
    if usable["baseline"].all():
        return None
    has_numbers = group["strategy"].isin(usable["strategy"])
    measured = rows.order_by_catalog(group[has_numbers])
    strategies = measured["strategy"].cat.categories
    height = 0.8 + ROW_IN * len(strategies)
    figure, panels = plt.subplots(1, 2, figsize=(8.6, height), sharey=True)
    for axes, (column, title) in zip(panels, QUANTITIES.items()):
        draw_panel(axes, measured, column)
        axes.set_title(title)
    # a strategy that changes the result is in italics
    has_same_result = measured.groupby("strategy", observed=True)["same_mathematics"].all()
    for label, strategy in zip(panels[0].get_yticklabels(), strategies):
        if not has_same_result[strategy]:
            label.set_style("italic")
    figure.tight_layout()
    note = f"{NOTE} {describe_timing(group)} {rows.describe_batches(measured)}"
    return page.explain_figure(figure, make_title(group), rows.make_footer(group, note))


def draw_panel(axes: Axes, measured: pd.DataFrame, column: str) -> None:
    """Draw colours on a logarithmic scale around 1, and a text where there is no number.

    A text is the outcome of a case, `-` if it was not measured, or `undecided`.
    """
    is_shown = measured["usable"]
    texts = rows.find_outcomes(measured).where(~is_shown, "-")
    if column == "time_ratio":
        is_unclear = is_shown & measured[column].notna() & ~find_decided(measured)
        ratios = pd.Series(format_time_ratios(measured), measured.index)
        # such as `undecided`, without the interval
        texts = texts.mask(is_unclear, ratios.str.split(" ").str[0])
        is_shown = is_shown & ~is_unclear
    rated = measured.assign(value=measured[column].where(is_shown), text=texts)
    values = rated.pivot(index="strategy", columns="framework", values="value")
    filled = rated.pivot(index="strategy", columns="framework", values="text")
    for framework in filled:
        filled[framework] = filled[framework].fillna(look_up_support(measured, str(framework)))
    # half and double are equally far from 1
    page.draw_map(axes, np.log2(values), values, filled, CHANGE, RANGE)
    for label in axes.get_xticklabels():
        label.set(color=page.COLOURS[label.get_text()], weight="bold")


def look_up_support(measured: pd.DataFrame, framework: str) -> pd.Series:
    """Return `unsupported` for each strategy that a framework does not have, and `-` for others.

    `framework` is a proper name, such as PyTorch.
    """
    names = {proper: name for name, proper in rows.PROPER_NAMES.items()}
    any_case = Case.from_id(measured["case"].iloc[0])
    texts = {}
    for strategy in measured["strategy"].unique():
        case = replace(any_case, framework=names[framework], strategy=str(strategy))
        texts[strategy] = "-" if case.support.supported else "unsupported"
    return pd.Series(texts)


def make_title(group: pd.DataFrame) -> str:
    """Return how many strategies save memory, and how many of these certainly cost no time."""
    head = rows.name_scenario(group)
    comparable = group[group["usable"] & ~group["baseline"] & group["same_mathematics"]]
    if comparable.empty:
        return f"{head}: no strategy was measured beside the baseline"
    savings = []
    free_savings = []
    for framework, of_framework in comparable.groupby("framework", observed=True):
        is_saving = of_framework["relative_peak"] < 1 - LEAST_CHANGE
        is_free = is_saving & (of_framework["time_ratio_high"] < 1 + LEAST_CHANGE)
        savings.append(f"{is_saving.sum()} of {len(of_framework)} in {framework}")
        free_savings.append(str(is_free.sum()))
    title = (
        f"{head}, strategies that save more than {LEAST_CHANGE * 100:.0f} % of the peak: "
        f"{rows.join_words(savings)}"
    )
    if comparable["time_ratio"].notna().any():
        free = rows.join_words(free_savings)
        title += f"; with steps certainly less than {LEAST_CHANGE * 100:.0f} % longer: {free}"
    return title
