"""A model of the user's own under every strategy that applies."""

from framebench.extensions import Feature

FEATURE = Feature(
    "A model of the user's own under every strategy that applies.",
    {
        "commands": "command",
        "own_model": "opened:opened",
        "own_shapes": "opened:shaped",
        "documents": "tried:documents",
    },
    workers=("reference", "torch_facts", "flax_facts"),
)
