"""Float64 references, which PyTorch makes and JAX confirms."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Float64 references, which PyTorch makes and JAX confirms.",
    {},
    workers=("golden_worker",),
)
