"""Define what all figures share: colours, markers, the finding above and the provenance below."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import partial
from textwrap import wrap
from typing import Any

import matplotlib.pyplot as plt
import matplotlib.style
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from framebench.strategies.registry import look_up_strategy
from framebench.strategies.strategy import TITLES

# seaborn's `colorblind`; a framework has the same colour in every figure
COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
COLOURS |= {name: COLOURS[framework] for framework, name in TITLES.items()}
# a marker for each axis of the catalog that people ask for most; the others share one
OTHER = "other settings"
MARKERS = {
    "precision": "o",
    "recomputation": "s",
    "batching": "D",
    "execution": "^",
    "collector": "v",
    "loading": ">",
    "mode": "h",
    "combination": "P",
    OTHER: "X",
}
STYLE: list[Any] = [
    "default",  # undoes whatever a user's matplotlibrc sets
    sns.axes_style("whitegrid"),
    {
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same picture everywhere
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.labelsize": 8,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "legend.fontsize": 7.5,
        "legend.title_fontsize": 7.5,
        "axes.titlelocation": "left",
        "axes.edgecolor": "0.6",
        "grid.color": "0.9",
        "grid.linewidth": 0.6,
        "svg.hashsalt": "framebench",
        "svg.fonttype": "none",  # text stays text: smaller, and found by a search
        "savefig.bbox": "tight",
        "savefig.pad_inches": 0.12,
    },
]
FINDING_PT, SOURCE_PT = 11.0, 6.5
LETTER = 0.56  # mean width of a character in font sizes
GAP_IN = 0.1
LONG_NUMBER = re.compile(r"\b\d+\.\d{3,}\b")


def format_tick(value: float, _: int | None = None) -> str:
    """Return a plain number for a tick of a logarithmic axis."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


PLAIN = FuncFormatter(format_tick)


# a decorator: the decorated function draws under the figures' own settings
apply_style = matplotlib.style.context(STYLE)


def find_family(scenario: str, strategy: str) -> str:
    """Return the family that a strategy's marker stands for: its axis, or `OTHER`."""
    axis = look_up_strategy(scenario, strategy).axis
    return axis if axis in MARKERS else OTHER


def explain_figure(figure: Figure, finding: str, notes: Iterable[str]) -> Figure:
    """Write the finding above the figure and the notes below, and return it.

    pyplot forgets the figure, so that a notebook shows it once, where it is returned.
    """
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    lines = []
    for note in notes:
        lines += wrap(escape_text(note), count_letters(box.width, SOURCE_PT))
    left = box.x0 / width
    figure.text(
        left,
        (box.y1 + GAP_IN) / height,
        "\n".join(wrap_evenly(finding, box.width)),
        size=FINDING_PT,
        weight="bold",
        va="bottom",
        label="finding",
    )
    figure.text(
        left,
        (box.y0 - GAP_IN) / height,
        "\n".join(lines),
        size=SOURCE_PT,
        color="0.35",
        va="top",
        linespacing=1.3,
        label="source",
    )
    plt.close(figure)
    return figure


def wrap_evenly(text: str, width: float) -> list[str]:
    """Return as few lines as a width in inches allows, of about equal length."""
    most = count_letters(width, FINDING_PT)
    lines = len(wrap(escape_text(text), most))
    even = len(text) // max(lines, 1) + 12  # characters; words are not all of one length
    return wrap(escape_text(text), min(most, even))


def count_letters(width: float, size: float) -> int:
    """Return how many characters of a font size in points fit into a width in inches."""
    return int(width * 72 / (size * LETTER))


def set_logarithmic(axis: Axis, low: float, high: float) -> None:
    """Make an axis logarithmic, from a little below `low` to a little above `high`."""
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low / 1.15, high * 1.15)})
    axis.set_major_locator(LogLocator(subs=(1, 1.4, 2, 3, 5, 7)))
    axis.set_major_formatter(PLAIN)
    axis.set_minor_locator(NullLocator())


def draw_map(
    axes: Axes,
    shades: pd.DataFrame | np.ndarray,
    ratios: pd.DataFrame,
    texts: pd.DataFrame,
    colours: str | Colormap,
    span: float,
) -> None:
    """Draw a map of ratios.

    Args:
        axes: Where it is drawn.
        shades: What the colour of each ratio says, such as the ratio's logarithm.
        ratios: The numbers in the map. It has no number where a text stands.
        texts: What is written on white.
        colours: The colours from -span to span.
        span: Where the colours end.
    """
    heatmap = partial(sns.heatmap, ax=axes, cbar=False, linewidths=1.2)
    heatmap(
        shades,
        annot=ratios,
        fmt=".2f",
        cmap=colours,
        vmin=-span,
        vmax=span,
        annot_kws={"size": 6.5},
    )
    # a second, white map writes the texts where the first has no number
    if ratios.isna().any(axis=None):
        heatmap(
            ratios.isna(),
            mask=ratios.notna(),
            annot=texts,
            fmt="",
            cmap=["white"],
            annot_kws={"size": 6.5, "color": "0.55"},
        )
    axes.set(xlabel="", ylabel="")
    axes.grid(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", rotation=0)


def read_finding_and_source(figure: Figure) -> tuple[str, str]:
    """Return the finding above and the provenance below, each on one line."""
    texts = {text.get_label(): " ".join(text.get_text().split()) for text in figure.texts}
    return texts["finding"], texts["source"]


def escape_text(text: str) -> str:
    """Return text with spaces for control characters, and `$`, which begins a formula, escaped."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).replace("$", r"\$")


@apply_style
def render_svg(figure: Figure) -> str:
    """Return the figure as SVG: always the same text for the same figure."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "framebench"})
    text = re.sub(r" +$", "", file.getvalue(), flags=re.M)
    # a hundredth of a point is more than the eye sees, and the files are smaller
    return LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", text)
