"""The one table: every scenario, and from `catalog/` every strategy, with how a framework does it or why not."""

from __future__ import annotations

from functools import cache

from framebench.strategies import (
    checkpoint,
    claims,
    generation,
    memory,
    offload,
    precision,
    quantized,
    ranks,
    scenarios,
    steps,
)
from framebench.strategies.strategy import IncompatibleStrategies, Scenario, Strategy, Unsupported, combine, everywhere

SCENARIO_ROWS = (
    Scenario("train", "forward, backward and optimizer step", "fp32", "training"),
    Scenario("eval", "a forward pass in evaluation mode", "no_grad", "logits"),
    Scenario(
        "finetune", "a training step of the upper half of the blocks; the lower half is frozen", "half", "training",
        declared="trained",
    ),
    Scenario(
        "varlen", "evaluation of a fixed stream of batches whose sequences differ in length (images do not)", "padded", "loss",
        workloads=("transformer",),
    ),
    Scenario(
        "generate", "the last tokens of sequences one after the other, each from those before it", "static_cache", "logits",
        workloads=("transformer",), mathematics="eval",
    ),
    Scenario(
        "pair", "evaluation by two models that differ in their last layer", "together", "loss", workloads=("resnet50",)
    ),
    Scenario(
        "pipeline", "a training step on images that are read and prepared on the host beside it", "iterator", "training",
        declared="raw_images",
    ),
    Scenario(
        "custom_op", "a training step whose GELU is a differentiation rule written by hand", "built_in", "training",
        workloads=("transformer",), mathematics="train",
    ),
)  # fmt: skip
# the parts of a combination stand in its name in this order
_ROWS = (
    *precision.ROWS, *checkpoint.ROWS, *steps.ROWS, *offload.ROWS, *claims.PRECISION, *claims.STEPS, *memory.ROWS,
    *claims.MEMORY, *quantized.ROWS, *scenarios.ROWS, *generation.ROWS, *claims.SCENARIOS,
)  # fmt: skip
SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in SCENARIO_ROWS}
BASELINES = {s.name: s.baseline for s in SCENARIOS.values()}  # what the ratios of a table refer to
STRATEGIES: dict[tuple[str, str], Strategy] = {
    (scenario, row.name): row for scenario in SCENARIOS for row in _ROWS if scenario in row.scenarios
}
# what several processes or devices do together: in no profile
OVER_RANKS: dict[tuple[str, str], Strategy] = {(scenario, row.name): row for row in ranks.ROWS for scenario in row.scenarios}
_KNOWN = STRATEGIES | OVER_RANKS

# Combinations that are cases of every profile but the quick one. Any other sensible `a+b` can be asked for by name.
COMBINATIONS: dict[str, tuple[str, ...]] = {
    "train": (
        "amp_bf16+checkpoint",
        "amp_bf16+accumulate",
        "amp_bf16+channels_last",
        "amp_fp16+channels_last",
        "tf32+channels_last",
        "autotune+channels_last",
        "amp_bf16+sdpa_flash",
        "amp_bf16+sdpa_efficient",
        "amp_bf16+sdpa_cudnn",
        "amp_bf16+checkpoint+compile",
        "checkpoint+rewrite",
        "checkpoint+accumulate",
        "accumulate+long",
        "checkpoint+long",
        "checkpoint+depth_4",
        "checkpoint+depth_16",
    ),
    "eval": ("no_fuse+no_onednn",),
    "pipeline": ("gc_every_2+reused",),
}


def names(scenario: str) -> tuple[str, ...]:
    """The strategies of a scenario, in the order of the table; combinations last."""
    return tuple(name for where, name in STRATEGIES if where == scenario) + COMBINATIONS.get(scenario, ())


def in_use(scenario: str) -> tuple[str, ...]:
    """The strategies of a scenario that people use; `claims_only` has the others."""
    return tuple(name for name in names(scenario) if not find(scenario, name).only_for_claims)


def claims_only(scenario: str) -> tuple[str, ...]:
    """The strategies of a scenario that only test an article's sentence."""
    return tuple(name for name in names(scenario) if find(scenario, name).only_for_claims)


@cache
def find(scenario: str, name: str) -> Strategy:
    """A strategy, or a combination `a+b` in any order. Raises KeyError for an unknown name, and IncompatibleStrategies."""
    if (scenario, name) in _KNOWN:
        return _KNOWN[scenario, name]
    parts = [_KNOWN[scenario, part] for part in name.split("+")]
    order = list(_KNOWN.values())
    return combine(tuple(sorted(parts, key=order.index)), SCENARIOS[scenario])


GONE = "this version of framebench does not have it"


@cache
def look_up(scenario: str, name: str) -> Strategy:
    """Return the strategy, or a stand-in for one that this version does not have: archived records name such."""
    try:
        return find(scenario, name)
    except (KeyError, IncompatibleStrategies):
        return Strategy(name, (scenario,), "archived", GONE, GONE, everywhere(Unsupported(GONE)))


def look_up_scenario(name: str) -> Scenario:
    """Return the scenario, or a stand-in without a baseline for one that this version does not have."""
    return SCENARIOS.get(name) or Scenario(name, GONE, baseline="", observes="loss")


def baseline_of(scenario: str) -> str:
    """Return the name of the scenario's baseline; empty for a scenario that this version does not have."""
    return look_up_scenario(scenario).baseline
