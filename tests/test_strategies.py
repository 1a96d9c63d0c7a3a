"""The strategy table is total; every supported cell computes the right thing and proves its effect, in its framework."""

from __future__ import annotations

import pytest

from framebench.cases import Case, every_case
from framebench.environments import Environment
from framebench.strategies import BASELINES, FRAMEWORKS, STRATEGIES, Native, Strategy
from models.spec import NAMES
from tests.conftest import run_inside

ALL_CASES = """
import json, sys
from framebench import adapters, worker
from framebench.cases import parse
rows = {}
for case_id in sys.argv[1:]:
    adapter = adapters.load(parse(case_id))
    adapter.build()
    _, observed = worker.first_steps(adapter)
    effect = adapter.effect()
    rows[case_id] = {"verification": worker.verify(adapter, observed), "proven": effect.proven, "evidence": effect.evidence}
    del adapter
print(json.dumps(rows))
"""


def tiny(workload: str, framework: str) -> list[Case]:
    first = {w: next(c.batch for c in every_case() if (c.workload, c.size) == (w, "tiny")) for w in NAMES}
    found = [c for c in every_case() if (c.workload, c.framework, c.size) == (workload, framework, "tiny")]
    return [c for c in found if c.batch == first[workload]]


def test_a_missing_cell_stops_the_import() -> None:
    with pytest.raises(ValueError, match="no cell for jax, jittor"):
        Strategy("new", "train", "", "", {"torch": Native("")})


def test_the_table_is_total_and_gives_reasons() -> None:
    for strategy in STRATEGIES.values():
        assert set(strategy.cells) == set(FRAMEWORKS)
        assert all(len(cell.why) > 10 for cell in strategy.cells.values())
        assert strategy.effect
    assert all((scenario, name) in STRATEGIES for scenario, name in BASELINES.items())


def test_a_batch_that_does_not_divide_is_unsupported() -> None:
    assert not Case("unet3d", "torch", "train", "accumulate", 2, "full").support.supported


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", NAMES)
def test_every_supported_cell_is_right_and_proven(workload: str, framework: str, environment: dict[str, Environment]) -> None:
    cases = [c for c in tiny(workload, framework) if c.support.supported]
    rows = run_inside(environment[framework], ALL_CASES, *(c.id for c in cases))
    assert isinstance(rows, dict)
    assert set(rows) == {c.id for c in cases}
    wrong = {i: r["verification"] for i, r in rows.items() if not r["verification"]["passed"]}
    assert not wrong
    assert {i: r["evidence"] for i, r in rows.items() if not r["proven"]} == {}
