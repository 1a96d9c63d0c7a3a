"""Many machines: units of a run, Slurm, and records put together."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Many machines: units of a run, Slurm, and records put together.",
    {
        "documents": "table:of_results",
        "run_on_slurm": "command:run_on_slurm",
    },
)
