"""What did an upgrade of the framework change, case by case?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.results import Results
from framebench.analysis.statistics import NONE
from framebench.suite.counting import format_count
from framebench.versions.judge import IMPROVEMENT, QUANTITIES, REGRESSION, compare_successive
from framebench.versions.table import describe_conditions, make_title

QUANTITY_NAMES = [quantity.name for quantity in QUANTITIES]
DECIDED = (REGRESSION, IMPROVEMENT, NONE)
ROW_IN = 0.17  # height of a case's row in inches
RANGE = math.log2(1.5)  # where the colours end: two thirds, and one and a half times
NOTE = (
    "Ratios, new version / old version: above 1 (orange) is worse, below (violet) better; white: "
    "no difference that matters. "
    "What is undecided, or too few to tell, has no number. The rule: framebench/versions/judge.py."
)


def figures(results: Results, machines: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure for each pair of successive versions.

    If several machines measured a pair, the figure is of the first of them.
    """
    drawn = set()
    for machine in machines:
        for comparisons in compare_successive(results.get_records(machine)):
            name = f"versions-{comparisons[0].change.replace('==', '-')}"
            if name not in drawn:
                drawn.add(name)
                yield name, draw_changes, pd.DataFrame(comparisons)


@page.apply_style
def draw_changes(comparison_rows: pd.DataFrame) -> Figure | None:
    """Draw the rows of one pair of versions on one machine: cases down, quantities across.

    The rows are those of `judge.compare_versions`.

    Returns None if nothing is decided.
    """
    cells = comparison_rows[comparison_rows["quantity"].isin(QUANTITY_NAMES)]
    is_decided = cells["verdict"].isin(DECIDED)
    values = cells["ratio"].where(is_decided)
    cells = cells.assign(value=values.astype(float))
    if values.isna().all():
        return None
    figure, axes = plt.subplots(figsize=(6.4, 0.8 + ROW_IN * cells["case"].nunique()))
    draw_cells(axes, cells)
    figure.tight_layout()
    conditions = describe_conditions(rows.iterate_rows(comparison_rows))
    return page.explain_figure(figure, describe_regressions(cells), [NOTE, conditions])


def draw_cells(axes: Axes, cells: pd.DataFrame) -> None:
    """Draw colours on a logarithmic scale around 1, and white where no difference matters.

    The case with the largest ratio comes first.
    """
    cells = cells.assign(shade=np.log2(cells["value"]).mask(cells["verdict"] == NONE, 0))
    order = cells.groupby("case")["value"].max().sort_values(ascending=False, kind="stable").index

    def arrange(column: str) -> pd.DataFrame:
        table = cells.pivot(index="case", columns="quantity", values=column)
        return table.reindex(index=order, columns=QUANTITY_NAMES)

    page.draw_map(
        axes, arrange("shade"), arrange("value"), arrange("verdict").fillna("-"), "PuOr_r", RANGE
    )


def describe_regressions(cells: pd.DataFrame) -> str:
    """Return a sentence on the number of cases in which each quantity got worse, and how much.

    `cells` are those of `draw_changes`: a row for each case and quantity of one pair of versions.
    """
    regressions = []
    compared = []
    with_values = cells.dropna(subset="value")
    for quantity, group in with_values.groupby("quantity", sort=False):
        compared.append(f"{len(group)} of {quantity}")
        worse = group["value"][group["verdict"] == REGRESSION]
        if len(worse):
            share = f"{len(worse)} of {format_count(len(group), 'case')}"
            regressions.append(f"worse {quantity} in {share}, by at most {worse.max() - 1:.0%}")
    finding = f"no regression found ({rows.join_words(compared)} compared)"
    if regressions:
        finding = rows.join_words(regressions)
    first = cells.iloc[0]
    return f"{make_title(first['base'], first['change'])}: {finding}"
