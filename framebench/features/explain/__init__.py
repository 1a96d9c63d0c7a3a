"""Where the peak of a step comes from."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Where the peak of a step comes from.",
    {
        "commands": "command",
        "documents": "tables:documents",
        "causes": "table:causes",
        "figures": "figure:figures",
    },
    workers=("worker",),
    records={"explained": "record:Explanation"},
)
