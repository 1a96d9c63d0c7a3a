"""The records as pages, without network or server."""

from framebench.extensions import Feature

FEATURE = Feature(
    "The records as pages, without network or server.",
    {"build_site": "build:build", "page_of_model": "own:write"},
)
