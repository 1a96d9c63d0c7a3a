"""What all figures share: colours, shapes, the page with its title and footer, and how a figure becomes bytes.

Figures are made without pyplot, so that drawing leaves no state behind and needs no display.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import wraps
from textwrap import wrap
from typing import Any, Literal, ParamSpec, TypeVar
from zlib import crc32

import matplotlib.style
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

P = ParamSpec("P")
R = TypeVar("R")

# seaborn's `colorblind`; a framework has the same colour in every figure
COLOURS = {"torch": "#d55e00", "jax": "#0173b2", "jittor": "#029e73"}
NAMES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
# a shape for each axis of the strategy table that people ask for most; the other axes share one
SHAPES = {
    "precision": "o", "recomputation": "s", "batching": "D", "execution": "^", "collector": "v", "loading": ">", "mode": "h",
    "combination": "*", "structure": "P",
}  # fmt: skip
OTHER = "X"
STYLE: list[Any] = [
    "default",  # whatever a user's matplotlibrc says
    sns.axes_style("whitegrid"),
    {
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same picture everywhere
        "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5,
        "legend.fontsize": 7.5, "legend.title_fontsize": 7.5, "grid.color": "0.9", "axes.edgecolor": "0.6",
        "grid.linewidth": 0.6,        "axes.titlelocation": "left", "svg.hashsalt": "framebench",
        "svg.fonttype": "none",  # text stays text: smaller, and found by a search
        "figure.constrained_layout.use": True,
    },
]  # fmt: skip
TITLE_PT, FOOTER_PT, LINE = 11.0, 6.5, 1.3  # font sizes, and the distance of lines in font sizes
TITLE_EM, FOOTER_EM = 0.60, 0.545  # mean width of a character in font sizes
MARGIN_IN = 0.12


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """The function, run under the figures' own settings."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.style.context(STYLE):
            return draw(*args, **kwargs)

    return inside


def page(title: str, notes: list[str], width: float, height: float) -> tuple[Figure, SubFigure]:
    """A figure with the finding above and the provenance below; `width` x `height` inches between are for the panels."""
    above = even(title, width)
    below = [line for note in notes for line in folded(note, width, FOOTER_PT, FOOTER_EM)]
    heights = (tall(above, TITLE_PT), height, tall(below, FOOTER_PT))
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    head, body, foot = figure.subfigures(3, 1, height_ratios=heights).flat  # type: ignore[union-attr]
    left = MARGIN_IN / width
    head.text(left, 1 - MARGIN_IN / heights[0], "\n".join(above), size=TITLE_PT, weight="bold", va="top", linespacing=LINE)
    foot.text(left, 1, "\n".join(below), size=FOOTER_PT, color="0.35", va="top", linespacing=LINE)
    return figure, body


def folded(text: str, width: float, size: float, em: float) -> list[str]:
    return wrap(safe(text), int((width - 2 * MARGIN_IN) * 72 / (size * em)))


def even(title: str, width: float) -> list[str]:
    """As few lines as the width allows, of about equal length."""
    text, lines = safe(title), folded(title, width, TITLE_PT, TITLE_EM)
    narrower = (wrap(text, w) for w in range(max(map(len, lines), default=1) * 2 // 3, len(text) + 1))
    return next((found for found in narrower if len(found) <= len(lines)), lines)


def tall(lines: list[str], size: float) -> float:
    """Inches that these lines take, with a margin on one side."""
    return len(lines) * size * LINE * 1.05 / 72 + MARGIN_IN


def safe(text: str) -> str:
    """Text from records is not mathematics, and has no control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).replace("$", r"\$")


def plain(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Lines of the grid along one axis alone, and nothing around the panel that says nothing."""
    axes.grid(False)
    axes.grid(True, axis=grid)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    sns.despine(ax=axes, left=grid == "x", bottom=grid == "y")


def unframed(axes: Axes, lines_x: int, lines_y: int) -> None:
    """A panel of cells: white lines between so many columns and rows, no ticks and no frame."""
    axes.grid(False)
    axes.set_xticks([i + 0.5 for i in range(lines_x - 1)], minor=True)
    axes.set_yticks([i + 0.5 for i in range(lines_y - 1)], minor=True)
    axes.grid(True, which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0)
    sns.despine(ax=axes, left=True, bottom=True)


def key(
    marker: str = "o", colour: str = "0.4", label: str = "", line: Any = "", hollow: bool = False, size: float = 6
) -> Line2D:
    """An entry of a legend."""
    face = "none" if hollow else colour
    return Line2D([], [], marker=marker, color=colour, markerfacecolor=face, linestyle=line, label=label, markersize=size)


LONG = re.compile(r"\b\d+\.\d{4,}\b")  # coordinates in points: a hundredth is enough, and the same every time
NAME = re.compile(r'(?<=[#"])[a-z][0-9a-f]{10}(?=[")])')


@styled
def svg(figure: Figure) -> str:
    """The same text for the same figure, always: no date, and names by their order. Matplotlib's own are hashes of floats whose
    last bits the layout solver does not repeat."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "framebench"})
    text = "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
    text = LONG.sub(lambda number: f"{float(number[0]):.2f}", text)
    own = crc32(NAME.sub("", text).encode())  # several figures may stand in one page
    names: dict[str, str] = {}
    return NAME.sub(lambda name: names.setdefault(name[0], f"f{own:08x}-{len(names)}"), text)


@styled
def png(figure: Figure, dpi: int = 76, colours: int = 128) -> bytes:
    """With a palette of so many colours: a fraction of the size, and nobody sees it in a drawing."""
    file, small = io.BytesIO(), io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    Image.open(file).convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()


def said(figure: Figure) -> tuple[str, str]:
    """The finding above and the provenance below, each on one line."""
    head, *_, foot = figure.subfigs
    finding, source = (" ".join(t.get_text() for t in part.findobj(Text)).replace("\n", " ") for part in (head, foot))
    return finding.strip(), source.strip()
