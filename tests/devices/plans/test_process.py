"""PyTorch's planners: one import for many cases, and a process for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.devices.catalog import find
from framebench.devices.plans import process
from framebench.engine.environments import Environment
from framebench.suite.case import Case
from framebench.user_file import trial

H100 = find("h100-80gb")
CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
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


@pytest.fixture(autouse=True)
def no_server_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without a server that another test left."""
    monkeypatch.setattr(process, "IDLE", [])


def test_one_server_plans_case_after_case(environment: dict[str, Environment]) -> None:
    answers = []
    servers = set()
    for strategy in ("fp32", "tf32", "fp32"):
        case = Case.from_id(CASE.id.replace("fp32", strategy))
        answers.append(process.run_planner(environment["torch"], case, H100))
        (server,) = process.IDLE
        servers.add(server.process.pid)
    assert len(servers) == 1
    assert {answer.outcome for answer in answers} == {"planned"}
    assert answers[0] == answers[2], "nothing is left of the case between them"


def test_a_case_that_ends_its_process_does_not_end_the_server(
    environment: dict[str, Environment], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ABORTS)
    model = trial.inspect_file(file, 2)
    with trial.use_model(model):
        failed = process.run_planner(environment["torch"], model.baseline, H100)
        other = process.run_planner(environment["torch"], CASE, H100)
    assert failed.outcome == "failed"
    assert "the planner ended with -6" in str(failed.reason)
    assert other.outcome == "planned"
    assert len(process.IDLE) == 1


def test_a_server_that_was_killed_while_it_waited_is_replaced(
    environment: dict[str, Environment],
) -> None:
    process.run_planner(environment["torch"], CASE, H100)
    (server,) = process.IDLE
    server.process.kill()
    assert process.run_planner(environment["torch"], CASE, H100).outcome == "planned"


def test_no_more_servers_wait_than_plan_at_a_time(environment: dict[str, Environment]) -> None:
    servers = [process.Server(environment["torch"], "") for _ in range(process.MOST_IDLE + 1)]
    for server in servers:
        process.put_idle(server)
    assert servers[1:] == process.IDLE
    assert servers[0].process.wait(300) == 0
