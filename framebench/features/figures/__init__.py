"""What a machine's rows say, drawn: curves over batches, the parts of a peak, first steps, heat maps."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Figures of a machine's rows, beside the front of memory and throughput.",
    {"questions": "questions:of_rows"},
)
