"""Join all scenarios and strategies into one table, with how a framework does each or why not."""

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
from framebench.strategies.strategy import (
    IncompatibleStrategies,
    Scenario,
    Strategy,
    Unsupported,
    combine,
    use_everywhere,
)

SCENARIO_ROWS = (
    Scenario(
        name="train",
        summary="forward, backward and optimizer step",
        baseline="fp32",
        observes="training",
    ),
    Scenario(
        name="eval",
        summary="a forward pass in evaluation mode",
        baseline="no_grad",
        observes="logits",
    ),
    Scenario(
        name="finetune",
        summary="a training step of the upper half of the blocks; the lower half is frozen",
        baseline="half",
        observes="training",
        declared="trained",
    ),
    Scenario(
        name="varlen",
        summary=(
            "evaluation of a fixed stream of batches whose sequences differ in length "
            "(images do not)"
        ),
        baseline="padded",
        observes="loss",
        workloads=("transformer",),
    ),
    Scenario(
        name="generate",
        summary="the last tokens of sequences one after the other, each from those before it",
        baseline="static_cache",
        observes="logits",
        workloads=("transformer",),
        mathematics="eval",
    ),
    Scenario(
        name="pair",
        summary="evaluation by two models that differ in their last layer",
        baseline="together",
        observes="loss",
        workloads=("resnet50",),
    ),
    Scenario(
        name="pipeline",
        summary="a training step on images that are read and prepared on the host beside it",
        baseline="iterator",
        observes="training",
        declared="raw_images",
    ),
    Scenario(
        name="custom_op",
        summary="a training step whose GELU is a differentiation rule written by hand",
        baseline="built_in",
        observes="training",
        workloads=("transformer",),
        mathematics="train",
    ),
)
SCENARIOS = {row.name: row for row in SCENARIO_ROWS}
BASELINES = {row.name: row.baseline for row in SCENARIO_ROWS}  # what a table's ratios refer to

# the parts of a combination stand in its name in this order
_ROWS = (
    *precision.ROWS,
    *checkpoint.ROWS,
    *steps.ROWS,
    *offload.ROWS,
    *claims.PRECISION,
    *claims.STEPS,
    *memory.ROWS,
    *claims.MEMORY,
    *quantized.ROWS,
    *scenarios.ROWS,
    *generation.ROWS,
    *claims.SCENARIOS,
)
STRATEGIES: dict[tuple[str, str], Strategy] = {
    (scenario, row.name): row
    for scenario in SCENARIOS
    for row in _ROWS
    if scenario in row.scenarios
}
# what several processes or devices do together: in no profile
OVER_RANKS: dict[tuple[str, str], Strategy] = {
    (scenario, row.name): row for row in ranks.ROWS for scenario in row.scenarios
}
_ALL = STRATEGIES | OVER_RANKS

# Combinations that are cases of every profile but the quick one. Any other sensible `a+b` can be
# asked for by name.
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


def list_strategies(scenario: str) -> tuple[str, ...]:
    """Return the strategies of a scenario, in the order of the table; combinations come last."""
    single = tuple(name for where, name in STRATEGIES if where == scenario)
    return single + COMBINATIONS.get(scenario, ())


def list_used(scenario: str) -> tuple[str, ...]:
    """Return the strategies of a scenario that people use; `list_claims_only` has the others."""
    names = list_strategies(scenario)
    return tuple(name for name in names if not find_strategy(scenario, name).only_for_claims)


def list_claims_only(scenario: str) -> tuple[str, ...]:
    """Return the strategies of a scenario that only test an article's sentence."""
    names = list_strategies(scenario)
    return tuple(name for name in names if find_strategy(scenario, name).only_for_claims)


@cache
def find_strategy(scenario: str, name: str) -> Strategy:
    """Return a strategy, or a combination `a+b` in any order.

    Raises KeyError with (scenario, strategy) for an unknown name, and IncompatibleStrategies.
    """
    if (scenario, name) in _ALL:
        return _ALL[scenario, name]
    parts = [_ALL[scenario, part] for part in name.split("+")]
    parts.sort(key=list(_ALL.values()).index)
    return combine(tuple(parts), SCENARIOS[scenario])


GONE = "this version of framebench does not have it"


@cache
def look_up_strategy(scenario: str, name: str) -> Strategy:
    """Return the strategy, or a stand-in for one that this version does not have.

    Archived records name such.
    """
    try:
        return find_strategy(scenario, name)
    except (KeyError, IncompatibleStrategies):
        return Strategy(
            name=name,
            scenarios=(scenario,),
            axis="archived",
            summary=GONE,
            effect=GONE,
            support=use_everywhere(Unsupported(GONE)),
        )


def look_up_scenario(name: str) -> Scenario:
    """Return the scenario, or a stand-in without a baseline for one that is gone."""
    return SCENARIOS.get(name) or Scenario(name, GONE, baseline="", observes="loss")


def find_baseline(scenario: str) -> str:
    """Return the name of the scenario's baseline; empty for a scenario that is gone."""
    return look_up_scenario(scenario).baseline
