"""Whether memory grows from step to step, and what piles up."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Whether memory grows from step to step, and what piles up.",
    {},
    workers=("worker", "torch_script"),
)
