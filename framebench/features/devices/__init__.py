"""What a case needs on a device that is not here: told by the programs that decide it there, without one."""

from framebench.extensions import Feature

FEATURE = Feature(
    "What a case needs on a device that is not here.",
    {
        "commands": "command",
        "documents": "documents:documents",
        "predict_on_device": "show:predict_on_device",
        "explain_on_device": "show:explain_on_device",
        "planned_for": "planning:planned_for",
    },
)
