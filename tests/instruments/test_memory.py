"""What the suite exists to show, shown: strategies move the peak, and fresh repeats of a measurement agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.instruments.host import HostPeak
from framebench.measure import runner
from framebench.measure.environments import Environment
from framebench.measure.runner import Options
from framebench.suite.selectors import parse
from framebench.suite.strategy import FRAMEWORKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HostPeak.available(), reason="needs a writable /proc/self/clear_refs"),
]
OWN = {"torch": "host.rss", "jax": "compiler.plan", "jittor": "allocator.in_use"}


def peak(case: str, environment: Environment, scratch: Path, instrument: str) -> int:
    """Bytes of a steady step, by the memory worker alone."""
    outcome = runner.run_worker(parse(case), "memory", environment, Options(), scratch, lambda part, phase: None)
    assert outcome.status == "ok", outcome.reason
    return outcome.result["peaks"][instrument]


def test_strategies_move_the_peak_of_a_transformer(environment: dict[str, Environment], tmp_path: Path) -> None:
    cases = ("train/fp32", "train/checkpoint", "train/accumulate", "eval/grad", "eval/no_grad")
    found = {c: peak(f"transformer/torch/{c}/b4/cpu", environment["torch"], tmp_path, "host.rss") for c in cases}
    assert found["train/checkpoint"] < 0.75 * found["train/fp32"], found
    assert found["train/accumulate"] < 0.75 * found["train/fp32"], found
    assert found["eval/grad"] > 1.5 * found["eval/no_grad"], found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_five_fresh_repeats_agree(framework: str, environment: dict[str, Environment], tmp_path: Path) -> None:
    case = f"transformer/{framework}/train/fp32/b4/cpu"
    found = [peak(case, environment[framework], tmp_path, OWN[framework]) for _ in range(5)]
    assert max(found) / min(found) <= 1.01, found
