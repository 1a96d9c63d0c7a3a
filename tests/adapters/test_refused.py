"""Two switches that each replace the loss are refused in any order, whatever the catalog says of them."""

from __future__ import annotations

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

pytestmark = pytest.mark.slow

SWITCHED = """
import json, sys
from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.strategy import IncompatibleStrategies

options = {"chunked_loss": {"chunks": 8}, "distill": {}}
found = []
for order in (list(options), list(options)[::-1]):
    adapter = adapters.load(Case.of(f"transformer/{sys.argv[1]}/train/distill/b4/tiny"))
    try:
        for name in order:
            with adapter.ledger.by(name):
                adapter.switches[name](adapter, **options[name])
    except IncompatibleStrategies as error:
        found.append(str(error))
print(json.dumps(found))
"""


@pytest.mark.parametrize(("framework", "part"), [("torch", "objective"), ("jax", "loss"), ("jittor", "loss")])
def test_two_that_replace_the_loss_are_named(framework: str, part: str, environment: dict[str, Environment]) -> None:
    assert run_inside(environment[framework], SWITCHED, framework) == [
        f"chunked_loss and distill do not combine: both change the {part}",
        f"distill and chunked_loss do not combine: both change the {part}",
    ]
