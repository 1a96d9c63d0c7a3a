"""Versions of a framework against each other."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Versions of a framework against each other.",
    {
        "report": "table:of_machine",
        "documents": "bisected:documents",
        "figures": "figure:figures",
        "pages": "pages:pages",
    },
    records={"bisected": "bisected_record:Bisected"},
)
