"""Which strategies fit into a budget of memory, from records."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Which strategies fit into a budget of memory, from records.",
    {},
)
