"""Pairs of strategies that change the same part of a step, in JAX and Jittor: both take effect, or both are named as they are
refused. `test_parts.py` has the rule, `tests/suite` the table's pairs."""

from __future__ import annotations

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PAIRS = """
import json, sys
from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.strategy import IncompatibleStrategies
from framebench.worker import worker

found = {}
for pair in sys.argv[2:]:
    adapter = adapters.load(Case.of(f"transformer/{sys.argv[1]}/train/{pair}/b4/tiny"))
    try:
        adapter.build()
    except IncompatibleStrategies as error:
        found[pair] = str(error)
        continue
    verification = worker.verify(adapter, worker.first_steps(adapter)[1])
    effect = adapter.effect()
    found[pair] = [verification["passed"], effect.evidence["proven"]]
print(json.dumps(found))
"""


def both(one: str, other: str, undone: str = "") -> list[object]:
    """Right, and both proven, but for what the CPU undoes."""
    return [True, {name: name != undone for name in (one, other)}]


JAX = {
    "multi_steps+mu_bf16": both("multi_steps", "mu_bf16"),
    "multi_steps+optimizer_offload": both("multi_steps", "optimizer_offload", undone="optimizer_offload"),
    "optimizer_offload+mu_bf16": both("optimizer_offload", "mu_bf16", undone="optimizer_offload"),
    "amp_fp16+multi_steps": both("amp_fp16", "multi_steps", undone="amp_fp16"),
    "checkpoint+scan": both("checkpoint", "scan"),
    "multi_steps+chunked_loss": both("multi_steps", "chunked_loss"),
    "chunked_loss+distill": "chunked_loss and distill do not combine: both change the loss",
    "mu_bf16+adafactor": "mu_bf16 does not combine with adafactor, which keeps no first moment",
}
JITTOR = {
    "checkpoint+chunked_loss": both("checkpoint", "chunked_loss"),
    "accumulate+chunked_loss": both("accumulate", "chunked_loss"),
    "checkpoint+distill": both("checkpoint", "distill"),
    "chunked_loss+distill": "chunked_loss and distill do not combine: both change the loss",
}


@pytest.mark.parametrize(("framework", "wanted"), [("jax", JAX), ("jittor", JITTOR)])
def test_both_take_effect_or_both_are_named(
    framework: str, wanted: dict[str, object], environment: dict[str, Environment]
) -> None:
    found = run_inside(environment[framework], PAIRS, framework, *wanted)
    assert isinstance(found, dict)
    assert {pair: drop_baseline(seen) for pair, seen in found.items()} == wanted


def drop_baseline(seen: object) -> object:
    if isinstance(seen, list):
        seen[1].pop("fp32", None)
    return seen
