"""Draw the peaks of a user's model where no times were measured."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis.figures import page
from framebench.analysis.rendering import MIB
from framebench.user_model.table import describe_least

WIDTH_IN = 5.2
NOTE = "Bars: the most that a steady step has in use. Black ticks: what a budget must have."


@page.apply_style
def draw_peaks(df: pd.DataFrame) -> Figure | None:
    """Draw a bar for each strategy that passed verification, the smallest peak above.

    Returns None if no strategy passed. `df` has the rows of one model with their `needs_bytes`.
    """
    right = df[df["usable"] & df["peak_bytes"].notna()].sort_values("peak_bytes")
    if right.empty:
        return None
    figure, axes = plt.subplots(figsize=(WIDTH_IN, 0.8 + 0.24 * len(right)))
    colour = page.COLOURS[str(right["framework"].iloc[0])]
    axes.barh(right["strategy"].astype(str), right["peak_bytes"] / MIB, color=colour, height=0.7)
    axes.plot(
        right["needs_bytes"] / MIB,
        range(len(right)),
        "|",
        color="black",
        markersize=8,
        markeredgewidth=1.4,
    )
    axes.set(xlabel="MiB", ylabel="", ylim=(len(right) - 0.4, -0.6))
    axes.grid(False, axis="y")
    sns.despine(ax=axes, left=True)
    figure.tight_layout()
    first = right.iloc[0]
    name = f"{first['size']}, batch {first['batch']}"
    findings = describe_least(df)
    finding = f"{name}: {findings[0]}" if findings else f"{name}: peaks of a step"
    return page.explain_figure(figure, finding, [NOTE])
