"""What pages call things, where records have short names; what has no title keeps its own."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.models import spec
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE

SCENARIOS = {
    "train": "Training", "eval": "Evaluation", "finetune": "Fine-tuning", "pipeline": "Input pipeline", "pair": "Two models",
    "varlen": "Sequences of many lengths", "generate": "Generation", "custom_op": "Custom operator",
}  # fmt: skip
SCENARIO_ORDER = tuple(SCENARIOS)  # what everyone asks for first


def title(name: str) -> str:
    """`unet3d` becomes `3D U-Net`."""
    if name in spec.names():
        return spec.workload(name).title
    return (TITLES | SCENARIOS).get(name, name)


def case_title(workload: str, framework: str, scenario: str, strategy: str, batch: int) -> str:
    return f"{title(framework)}, {strategy}: {title(workload)}, {title(scenario).lower()}, batch {batch}"


TRYING = "tiny"  # the size for trying out, which says little of memory


def at(batch: int, size: str) -> str:
    """`4`, or `8, size full`."""
    return f"{batch}" if size == DEFAULT_SIZE else f"{batch}, size {size}"


FIGURES = {
    "memory-speed": "Memory and speed", "pareto": "Memory and speed against the baseline",
    "strategies": "What each strategy saves and costs", "batches": "The peak by batch",
    "parts": "What a peak is made of", "first-step": "The first step", "largest": "The largest batch within a limit",
    "train-eval": "Training against evaluation", "shares": "What else takes time in a step",
    "step": "Memory over one step",
    "devices": "What a device that is not here would need", "support": "Which strategy exists where",
    "versions": "A release against the one before",
}  # fmt: skip


def figure_title(name: str) -> str:
    """`pareto-unet3d-train` becomes `Memory and speed against the baseline: 3D U-Net, training`."""
    kind = next((kind for kind in FIGURES if f"{name}-".startswith(f"{kind}-")), "")
    about = [SCENARIOS[part].lower() if part in SCENARIOS else title(part) for part in name[len(kind) :].split("-") if part]
    return ": ".join(filter(None, (FIGURES.get(kind, ""), ", ".join(about))))


def subject(name: str) -> str:
    """What a figure is of: `3D U-Net, training`."""
    return figure_title(name).partition(": ")[2]


def figure_order(name: str) -> tuple[int, int, str, int]:
    """By workload, by scenario, by all else that it is of, by kind; what is of no workload comes last."""

    def place(choices: Sequence[str], whole: str) -> int:
        return next((i for i, choice in enumerate(choices) if f"-{choice}-" in whole), len(choices))

    whole = f"-{name}-"
    return place(spec.names(), whole), place(SCENARIO_ORDER, whole), subject(name), place([*FIGURES], whole)


VERDICTS = {
    "ok": ("reproduced", "stronger"),
    "wrong": ("contradicted", "no effect worth having", "not supported", "no such API", "snippet does not run"),
    "timeout": ("weaker", "mixed", "undecided"),
}  # by the colour that they share with outcomes of cases; the others are grey


def verdict_class(verdict: str) -> str:
    return next((name for name, verdicts in VERDICTS.items() if verdict in verdicts), "")
