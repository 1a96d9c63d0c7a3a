"""Give the titles that pages show in the place of the short names in records.

A name without a title is shown unchanged.
"""

from __future__ import annotations

from framebench.models import spec
from framebench.strategies.strategy import TITLES

SCENARIOS = {
    "train": "Training",
    "eval": "Evaluation",
    "finetune": "Fine-tuning",
    "pipeline": "Input pipeline",
    "pair": "Two models",
    "varlen": "Sequences of many lengths",
    "generate": "Generation",
    "custom_op": "Custom operator",
}
# verdicts by the CSS class that gives them their colour, that of a case's status; others are grey
VERDICTS = {
    "ok": ("confirmed", "larger than claimed"),
    "wrong": (
        "opposite",
        "no effect",
        "no effect or opposite",
        "smaller or none",
        "no such API",
        "listing does not run",
    ),
    "timeout": ("smaller than claimed", "mixed", "undecided"),
}


def get_title(name: str) -> str:
    """Return the title of a workload, scenario or framework: `unet3d` becomes `3D U-Net`."""
    if name in spec.list_workloads():
        return spec.load_workload(name).title
    return (TITLES | SCENARIOS).get(name, name)


def get_verdict_class(verdict: str) -> str:
    """Return the CSS class that colours a verdict, or "" for a grey one."""
    classes = [css_class for css_class, verdicts in VERDICTS.items() if verdict in verdicts]
    return classes[0] if classes else ""
