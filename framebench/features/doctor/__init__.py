"""What this machine has and lacks, and how wrong its instruments are."""

from framebench.extensions import Feature

FEATURE = Feature(
    "What this machine has and lacks, and how wrong its instruments are.",
    {},
    workers=("worker", "torch_overhead"),
)
