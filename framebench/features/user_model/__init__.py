"""A model of the user's own under every strategy that applies."""

from framebench.extensions import Feature

FEATURE = Feature(
    "A model of the user's own under every strategy that applies.",
    {
        "documents": "tried:documents",
    },
)
