"""What did an upgrade of the framework change, case by case?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.figures import Asked, page
from framebench.analysis.results import Results
from framebench.versions.judge import IMPROVEMENT, NONE, QUANTITIES, REGRESSION, successive
from framebench.versions.table import held, title

NAMES = [quantity.name for quantity in QUANTITIES]
DECIDED = (REGRESSION, IMPROVEMENT, NONE)
ROW_IN = 0.17  # height of a case's row in inches
RANGE = math.log2(1.5)  # where the colours end: two thirds, and one and a half times
NOTE = (
    "Ratios, new version / old version: above 1 (orange) is worse, below (violet) better; white: no difference that matters. "
    "What is undecided, or too few to tell, has no number. The rule: framebench/versions/judge.py."
)


@page.styled
def changes(judged: pd.DataFrame) -> Figure | None:
    """`judged`: the rows of one pair of versions on one machine, as `reports.versions.rows_of` gives them. Cases down,
    quantities across; None where nothing is decided."""
    cells = judged[judged["quantity"].isin(NAMES)]
    cells = cells.assign(value=cells["ratio"].where(cells["verdict"].isin(DECIDED)).astype(float))
    if cells["value"].isna().all():
        return None
    figure, axes = plt.subplots(figsize=(6.4, 0.8 + ROW_IN * cells["case"].nunique()))
    _panel(axes, cells)
    figure.tight_layout()
    return page.explained(figure, _changes_title(cells), [NOTE, held([*rows.each(judged)])])


def _panel(axes: Axes, cells: pd.DataFrame) -> None:
    """Colours on a logarithmic scale around 1, for what matters; the case with the largest ratio first."""
    shade = np.log2(cells["value"]).mask(cells["verdict"] == NONE, 0)
    wide = {
        kind: cells.assign(shade=shade).pivot(index="case", columns="quantity", values=kind).reindex(columns=NAMES)
        for kind in ("value", "shade", "verdict")
    }
    order = wide["value"].max(axis=1).sort_values(ascending=False, kind="stable").index
    values, shades, verdicts = (table.loc[order] for table in wide.values())
    drawn = {"ax": axes, "cbar": False, "linewidths": 1.2}
    sns.heatmap(shades, annot=values, fmt=".2f", cmap="PuOr_r", vmin=-RANGE, vmax=RANGE, annot_kws={"size": 6.5}, **drawn)
    if values.isna().any(axis=None):
        grey = {"size": 6.5, "color": "0.55"}
        sns.heatmap(
            values.isna(), mask=values.notna(), annot=verdicts.fillna("-"), fmt="", cmap=["white"], annot_kws=grey, **drawn
        )
    axes.set(xlabel="", ylabel="")
    axes.grid(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", rotation=0)


def _changes_title(cells: pd.DataFrame) -> str:
    """In how many cases each quantity got worse, and by how much at most."""
    phrases, compared = [], []
    for quantity, group in cells.dropna(subset="value").groupby("quantity", sort=False):
        worse = group["value"][group["verdict"] == REGRESSION]
        compared.append(f"{len(group)} of {quantity}")
        if len(worse):
            phrases.append(f"worse {quantity} in {len(worse)} of {len(group)} cases, by at most {worse.max() - 1:.0%}")
    found = rows.join_words(phrases) or f"no regression found ({rows.join_words(compared)} compared)"
    return f"{title(cells['base'].iloc[0], cells['change'].iloc[0])}: {found}"


def figures(results: Results, machines: Iterable[str]) -> Iterator[Asked]:
    """One for each version and the one before it, of the first of these machines that has both; its last line names it."""
    rows_by_name: dict[str, pd.DataFrame] = {}
    for machine in machines:
        for judged in successive(results.of_machine(machine)):
            rows_by_name.setdefault(f"versions-{judged[0].change.replace('==', '-')}", pd.DataFrame(judged))
    for name, judged_rows in rows_by_name.items():
        yield name, changes, judged_rows
