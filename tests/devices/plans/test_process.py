"""PyTorch's planners: one import for many cases, and a process for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from framebench.devices.catalog import find
from framebench.devices.plans.answer import PlannerAnswer
from framebench.devices.plans.process import Servers
from framebench.engine.children import CHILDREN
from framebench.suite.case import Case
from framebench.user_file import trial

H100 = find("h100-80gb")
CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
TF32 = Case.from_id("transformer/torch/train/tf32/b4/tiny")
pytestmark = pytest.mark.slow

ABORTS = """
import os
import torch

def model():
    os.abort()

def batch(n):
    return torch.zeros(n, 4), torch.zeros(n, 4)

def loss(output, target):
    return output.sum()
"""


FAILS_IN_BACKWARD = """
import torch

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return 2 * values

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ gradient

def model():
    return torch.nn.Linear(4, 4)

def batch(n):
    return torch.zeros(n, 4), torch.zeros(n, 4)

def loss(output, target):
    return Twice.apply(output).sum()
"""


# labels are chosen at random where the batch is made, as for masked language models
CHOOSES_ON_HOST = """
import torch

def model():
    return torch.nn.Linear(4, 4)

def batch(n):
    labels = torch.zeros(n, 4)
    labels[torch.bernoulli(torch.full((n, 4), 0.15)).bool()] = 1
    return torch.zeros(n, 4), labels

def loss(output, target):
    return (output - target).square().mean()
"""


@pytest.fixture
def servers() -> Iterator[Servers]:
    with closing(Servers()) as servers:
        yield servers


@pytest.fixture
def plan_file(servers, environment, tmp_path) -> Callable[[str], PlannerAnswer]:
    """Return a function that plans the baseline of a user's file with this code, `mine.py`."""

    def plan(code: str) -> PlannerAnswer:
        file = tmp_path / "mine.py"
        file.write_text(code)
        model = trial.inspect_file(file, 2)
        with trial.use_model(model):
            return servers.plan(environment["torch"], model.baseline, H100)

    return plan


def test_one_server_plans_case_after_case(servers, environment):
    answers = [servers.plan(environment["torch"], case, H100) for case in (CASE, TF32, CASE)]
    assert {answer.outcome for answer in answers} == {"planned"}
    assert answers[0] == answers[2], "nothing is left of the case between them"
    (server,) = servers.started
    servers.close()
    assert server.process.returncode == 0


def test_a_case_that_ends_its_process_does_not_end_the_server(servers, plan_file, environment):
    failed = plan_file(ABORTS)
    other = servers.plan(environment["torch"], CASE, H100)
    assert failed.outcome == "failed"
    assert "the planner ended with -6" in str(failed.reason)
    assert other.outcome == "planned"
    assert len(servers.started) == 1


def test_an_error_in_a_backward_pass_names_the_line_of_the_file(plan_file):
    line = FAILS_IN_BACKWARD.splitlines().index("        return gradient @ gradient") + 1
    failed = plan_file(FAILS_IN_BACKWARD)
    assert failed.outcome == "failed"
    assert f"mine.py:{line}: RuntimeError: " in str(failed.reason)


def test_a_choice_that_takes_no_memory_of_the_gpu_is_no_obstacle(plan_file):
    answer = plan_file(CHOOSES_ON_HOST)
    assert (answer.outcome, answer.reason) == ("planned", None)


def test_a_killed_server_is_reported_and_replaced(servers, environment):
    servers.plan(environment["torch"], CASE, H100)
    CHILDREN.kill()
    killed = servers.plan(environment["torch"], CASE, H100)
    assert "the planner was killed" in str(killed.reason)
    assert servers.plan(environment["torch"], CASE, H100).outcome == "planned"
