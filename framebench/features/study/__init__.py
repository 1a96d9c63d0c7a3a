"""How often the suite errs: comparisons whose answer is known."""

from framebench.extensions import Feature

FEATURE = Feature(
    "How often the suite errs: comparisons whose answer is known.",
    {"commands": "command", "documents": "tables:documents"},
    records={"study/mutants.json": "mutants:Campaign"},
)
