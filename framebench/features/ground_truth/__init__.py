"""Figures that others published, beside ours."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Figures that others published, beside ours.",
    {"tables": "table:comparisons"},
)
