"""The largest batch within a budget of memory."""

from framebench.extensions import Feature

FEATURE = Feature(
    "The largest batch within a budget of memory.",
    {
        "commands": "command",
        "largest_batch": "measure:find",
    },
)
