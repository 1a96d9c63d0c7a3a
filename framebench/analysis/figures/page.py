"""What all figures share: colours and markers, the finding above, the provenance below, and how a figure becomes bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from functools import wraps
from textwrap import wrap
from typing import Any, ParamSpec, TypeVar

import matplotlib.pyplot as plt
import matplotlib.style
import seaborn as sns
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from framebench.analysis.rows import NAMES

P = ParamSpec("P")
R = TypeVar("R")

# seaborn's `colorblind`; a framework has the same colour in every figure
COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
COLOURS |= {name: COLOURS[framework] for framework, name in NAMES.items()}
# a marker for each axis of the catalog that people ask for most; the others share one
MARKERS = {
    "precision": "o", "recomputation": "s", "batching": "D", "execution": "^", "collector": "v", "loading": ">", "mode": "h",
    "combination": "P", "other settings": "X",
}  # fmt: skip
STYLE: list[Any] = [
    "default",  # whatever a user's matplotlibrc says
    sns.axes_style("whitegrid"),
    {
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same picture everywhere
        "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5,
        "legend.fontsize": 7.5, "legend.title_fontsize": 7.5, "axes.titlelocation": "left", "axes.edgecolor": "0.6",
        "grid.color": "0.9", "grid.linewidth": 0.6, "svg.hashsalt": "framebench",
        "svg.fonttype": "none",  # text stays text: smaller, and found by a search
        "savefig.bbox": "tight", "savefig.pad_inches": 0.12,
    },
]  # fmt: skip
FINDING_PT, SOURCE_PT = 11.0, 6.5
LETTER = 0.56  # mean width of a character in font sizes
GAP_IN = 0.1
PLAIN = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:.3g}")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """The function, run under the figures' own settings."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.style.context(STYLE):
            return draw(*args, **kwargs)

    return inside


def explained(figure: Figure, finding: str, notes: Iterable[str]) -> Figure:
    """The figure with its finding above and notes below, and forgotten by pyplot: a notebook shows it once, where it is
    returned."""
    drawn, size = figure.get_tightbbox(), figure.get_size_inches()
    left, top, bottom = drawn.x0 / size[0], (drawn.y1 + GAP_IN) / size[1], (drawn.y0 - GAP_IN) / size[1]
    above, below = (
        even(finding, drawn.width),
        [line for note in notes for line in wrap(_safe(note), _letters(drawn.width, SOURCE_PT))],
    )
    figure.text(left, top, "\n".join(above), size=FINDING_PT, weight="bold", va="bottom", label="finding")
    figure.text(left, bottom, "\n".join(below), size=SOURCE_PT, color="0.35", va="top", linespacing=1.3, label="source")
    plt.close(figure)
    return figure


def even(text: str, width: float) -> list[str]:
    """As few lines as a width in inches allows, of about equal length."""
    most = _letters(width, FINDING_PT)
    lines = wrap(_safe(text), most)
    return wrap(_safe(text), min(most, len(text) // max(len(lines), 1) + 12))


def _letters(width: float, size: float) -> int:
    """How many characters of a font size in points fit into a width in inches."""
    return int(width * 72 / (size * LETTER))


def logarithmic(axis: Axis, low: float, high: float) -> None:
    """A logarithmic axis a little wider than from `low` to `high`, with plain numbers at its ticks."""
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low / 1.15, high * 1.15)})
    axis.set_major_locator(LogLocator(subs=(1, 1.4, 2, 3, 5, 7)))
    axis.set_major_formatter(PLAIN)
    axis.set_minor_locator(NullLocator())


def finding_and_source(figure: Figure) -> tuple[str, str]:
    """The finding above and the provenance below, each on one line."""
    texts = {text.get_label(): " ".join(text.get_text().split()) for text in figure.texts}
    return texts["finding"], texts["source"]


def _safe(text: str) -> str:
    """Text from records is not mathematics, and has no control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).replace("$", r"\$")


LONG = re.compile(r"\b\d+\.\d{3,}\b")


@styled
def svg(figure: Figure) -> str:
    """The same text for the same figure, always: no date, and coordinates in points to a hundredth."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "framebench"})
    lines = (line.rstrip() for line in file.getvalue().splitlines())
    return LONG.sub(lambda number: f"{float(number[0]):.2f}", "".join(f"{line}\n" for line in lines))
