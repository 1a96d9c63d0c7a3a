"""The largest batch within a budget of memory."""

from framebench.extensions import Feature

FEATURE = Feature(
    "The largest batch within a budget of memory.",
    {
        "figures": "figure:figures",
        "largest_batch": "measure:find",
        "fits_within": "measure:fits",
        "evaluator": "oom_recovery:evaluator",
    },
    workers=("worker",),
    records={"fits": "measure:Fit"},
)
