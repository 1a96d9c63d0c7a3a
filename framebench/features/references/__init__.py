"""Float64 references, and how far right computations are off from them."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Float64 references, and how far right computations are off from them.",
    {"commands": "command", "documents": "tolerances:documents"},
    workers=("golden_worker", "rounding_worker"),
)
