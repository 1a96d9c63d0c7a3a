"""Tokens computed one after the other: what is kept of those before, and what that takes."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Tokens computed one after the other: what is kept of those before, and what that takes.",
    {"documents": "table:documents"},
)
