"""Where the peak of a step comes from."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Where the peak of a step comes from.",
    {
        "documents": "tables:documents",
        "causes": "table:causes",
        "figures": "figure:figures",
    },
    workers=("worker",),
    records={"explained": "record:Explanation"},
)
