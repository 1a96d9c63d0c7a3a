"""Titles that pages show in the place of the short names in records.

A name without a title is shown as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from framebench.models import spec
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE

TRIAL_SIZE = "tiny"  # the size for trying out, which says little of memory
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
SCENARIO_ORDER = tuple(SCENARIOS)  # what most readers ask for comes first
FIGURES = {
    "memory-speed": "Memory and speed",
    "pareto": "Memory and speed against the baseline",
    "strategies": "What each strategy saves and costs",
    "batches": "The peak by batch",
    "parts": "What a peak is made of",
    "first-step": "The first step",
    "largest": "The largest batch within a limit",
    "train-eval": "Training against evaluation",
    "shares": "What else takes time in a step",
    "step": "Memory over one step",
    "devices": "What a device that is not here would need",
    "support": "Which strategy exists where",
    "versions": "A release against the one before",
}
# by the CSS class of a case's status whose colour they share; other verdicts are grey
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


def make_case_title(workload: str, framework: str, scenario: str, strategy: str, batch: int) -> str:
    """Return the heading of a case's page."""
    place = f"{get_title(workload)}, {get_title(scenario).lower()}, batch {batch}"
    return f"{get_title(framework)}, {strategy}: {place}"


def describe_batch(batch: int, size: str) -> str:
    """Return `4`, or `8, size full` where the size is not the default."""
    return str(batch) if size == DEFAULT_SIZE else f"{batch}, size {size}"


def make_figure_title(name: str) -> str:
    """Return the title of a figure from the name of its file.

    `pareto-unet3d-train` becomes `Memory and speed against the baseline: 3D U-Net, training`.
    """
    kind = find_figure_kind(name)
    subjects = []
    for part in name.removeprefix(kind).split("-"):
        if part in SCENARIOS:
            subjects.append(SCENARIOS[part].lower())
        elif part:
            subjects.append(get_title(part))
    parts = [FIGURES.get(kind, ""), ", ".join(subjects)]
    return ": ".join(part for part in parts if part)


def find_figure_kind(name: str) -> str:
    """Return the kind in FIGURES that a figure's name begins with; empty if there is none."""
    for kind in FIGURES:
        if f"{name}-".startswith(f"{kind}-"):
            return kind
    return ""


def get_figure_subject(name: str) -> str:
    """Return what a figure is about: `3D U-Net, training`."""
    return make_figure_title(name).partition(": ")[2]


def figure_sort_key(name: str) -> tuple[int, int, str, int]:
    """Return a key that sorts figures by workload, by scenario, by any other subject, and by kind.

    Figures of no workload come last.
    """
    return (
        find_place(spec.list_workloads(), name),
        find_place(SCENARIO_ORDER, name),
        get_figure_subject(name),
        find_place(tuple(FIGURES), name),
    )


def find_place(choices: Sequence[str], name: str) -> int:
    """Return the index of the first choice that is a part of the name; their number if none is."""
    for place, choice in enumerate(choices):
        if f"-{choice}-" in f"-{name}-":
            return place
    return len(choices)


def get_verdict_class(verdict: str) -> str:
    """Return the CSS class that colours a verdict; empty for a grey one."""
    for css_class, verdicts in VERDICTS.items():
        if verdict in verdicts:
            return css_class
    return ""
