"""A weight that should not be trained, and is: named, not a traceback."""

from __future__ import annotations

from framebench.engine.environments import Environment
from tests.processes import run_inside

TRAINED = """
import json, sys, torch
from framebench import adapters
from framebench.suite.selectors import parse
from framebench.worker import worker
adapter = adapters.load(parse("transformer/torch/train/distill/b4/tiny"))
adapter.build()
more = list(adapter.held[1].parameters()) if sys.argv[1] == "teacher" else [torch.nn.Parameter(torch.ones(3))]
adapter.optimizer.add_param_group({"params": [p.requires_grad_(True) for p in more]})
adapter.optimizer.register_step_pre_hook(lambda *_: [setattr(p, "grad", torch.ones_like(p)) for p in more] and None)
print(json.dumps(worker.verify(adapter, worker.first_steps(adapter)[1])))
"""


def test_a_teacher_that_is_trained_is_wrong_and_named(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["torch"], TRAINED, "teacher")
    assert isinstance(found, dict)
    assert not found["passed"]
    assert "first moment of" in found["reason"]
    assert "such as teacher." in found["reason"]


def test_a_weight_of_no_model_is_wrong_and_told_by_its_shape(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["torch"], TRAINED, "unknown")
    assert isinstance(found, dict)
    assert "first moment of 1 tensors that should have none, such as unknown weight (3,)" in found["reason"]
