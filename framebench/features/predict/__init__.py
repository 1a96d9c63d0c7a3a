"""The peak of a case without running it."""

from framebench.extensions import Feature

FEATURE = Feature(
    "The peak of a case without running it.",
    {
        "tables": "held_out:comparisons",
    },
    workers=("worker",),
)
