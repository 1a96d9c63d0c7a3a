"""Labels of points that do not cover each other, the points, or the panel's edge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text

Point = tuple[float, float]
NEAR = (6, 12, 20, 30, 42, 56, 72, 90)  # points between a point and its label
# offsets in points: beside, above and below, and diagonally, from near to far; upright distance counts more
WAYS = [way for way in product((1, -1, 0), (0, 1, -1, 0.5, -0.5)) if any(way)]
OFFSETS = sorted(((x * far, y * far) for far in NEAR for x, y in WAYS), key=lambda at: at[0] ** 2 + 1.5 * at[1] ** 2)
SPACE = 1.5  # pixels around a label
DOT = 4.0  # half the width of a point's marker in pixels
LEADER = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}


def place(
    axes: Axes, points: Sequence[Point], texts: Sequence[str], others: Sequence[Point] = (), **style: Any
) -> list[Annotation]:
    """Each text as near to its point as it can be without covering anything; the layout must be final.

    The nearest position without overlap is taken; where there is none, the one with the least.
    """
    renderer = FigureCanvasAgg(axes.figure.get_figure(root=True)).get_renderer()  # type: ignore[union-attr]
    pixels = renderer.points_to_pixels(1.0)
    panel = np.array(axes.get_window_extent(renderer).extents)
    dots = axes.transData.transform([*points, *others]) if points else np.empty((0, 2))
    taken = np.hstack([dots - DOT, dots + DOT])  # (things, 4): left, bottom, right, top in pixels
    made = []
    for point, dot, text in zip(points, dots, texts):
        label = axes.annotate(text, point, (0, 0), textcoords="offset points", arrowprops=LEADER, **style)
        label.update_positions(renderer)
        size = Text.get_window_extent(label, renderer)  # of the text alone, without the line to its point
        boxes = around(dot, np.array([size.width, size.height]), pixels)
        best = int(np.argmin(hidden(boxes, taken, panel)))  # the first of equals: the nearest
        label.set(position=OFFSETS[best], ha=("center", "left", "right")[int(np.sign(OFFSETS[best][0]))], va="center")
        taken = np.vstack([taken, boxes[best]])
        made.append(label)
    return made


def around(dot: np.ndarray, size: np.ndarray, pixels: float) -> np.ndarray:
    """(offsets, 4): what a text of this size covers at each of the OFFSETS from a point."""
    offsets = np.array(OFFSETS)
    align = np.column_stack([(np.sign(offsets[:, 0]) - 1) / 2, np.full(len(offsets), -0.5)])  # of the text to its anchor
    low = dot + pixels * offsets + align * size - SPACE
    return np.hstack([low, low + size + 2 * SPACE])


def hidden(boxes: np.ndarray, taken: np.ndarray, panel: np.ndarray) -> np.ndarray:
    """(boxes,): square pixels of each box that lie on something, or outside the panel."""
    covered = shared(boxes[:, None], taken[None]).sum(axis=1)
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return np.round(covered + area - shared(boxes, panel))


def shared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Area that boxes have in common; the last axis is (left, bottom, right, top)."""
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    return np.prod(np.clip(sides, 0, None), axis=-1)
