"""What mistaken questions about ranks are answered with: each suggested command runs."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from framebench.devices.plans import planning
from framebench.engine import environments
from framebench.ranks import predicted
from framebench.ranks.predicted import Unpredicted
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.processes import framebench

TRAINING = "transformer/torch/train"
COMMAND = re.compile(r"framebench ((?:advise|predict|run|plan|list) [^\n;`]*)")
# the exit code of a mistaken question; a suggested command may answer that nothing fits
USAGE_ERROR = 2


@pytest.fixture
def reached(monkeypatch) -> list[Case]:
    """Return the list to which commands add the cases that they would predict."""
    cases: list[Case] = []

    def plan_none(wanted, *rest):
        cases.extend(wanted)
        raise typer.Exit(1)

    def predict_none(case, environment):
        cases.append(case)
        raise Unpredicted("not here")

    monkeypatch.setattr(planning, "plan_all", plan_none)
    monkeypatch.setattr(predicted, "predict_rank_peak", predict_none)
    monkeypatch.setattr(environments, "ensure", ignore)
    return cases


@pytest.mark.parametrize(
    "arguments",
    [
        ("advise", TRAINING, "--parameters", "7B", "--ranks", "4", "--device", "a100-80gb"),
        ("advise", f"{TRAINING}/fsdp/b8", "--parameters", "7B", "--ranks", "4"),
        ("advise", TRAINING, "--ranks", "2", "--budget", "1GiB"),
        ("advise", "transformer/*/train", "--ranks", "2", "--budget", "1GiB"),
        ("advise", TRAINING, "--ranks", "3", "--budget", "1GiB"),
        ("advise", f"{TRAINING}/fsdp", "--budget", "1GiB"),
        ("advise", f"{TRAINING}/fsdp", "--device", "a100-80gb"),
    ],
    ids=" ".join,
)
def test_a_suggested_command_reaches_the_cases_that_were_asked_about(arguments, reached):
    mistaken = framebench(*arguments, code=USAGE_ERROR)
    assert reached == []
    (command,) = COMMAND.findall(mistaken.stderr)

    done = framebench(*shlex.split(command))

    assert done.returncode != USAGE_ERROR, done.stderr
    assert reached
    for case in reached:
        assert case.ranks > 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("advise", f"{TRAINING}/amp_bf16+fsdp/1.3B", "--ranks", "2", "--budget", "16GiB"),
        ("advise", f"{TRAINING}/amp_bf16+fsdp/*/1.3B", "--device", "a100-80gb"),
    ],
    ids=" ".join,
)
def test_a_suggested_command_keeps_the_size_that_was_typed(arguments, reached):
    mistaken = framebench(*arguments, code=USAGE_ERROR)
    (command,) = COMMAND.findall(mistaken.stderr)

    done = framebench(*shlex.split(command))

    assert done.returncode != USAGE_ERROR, done.stderr
    assert {(case.strategy, case.size) for case in reached} == {("amp_bf16+fsdp", "1.3B")}


@pytest.mark.parametrize(
    ("arguments", "case"),
    [
        (("predict", f"{TRAINING}/fsdp/b4x4/7B", "--device", "a100-80gb"), "fsdp/b4x4/7B"),
        (
            ("predict", f"{TRAINING}/fsdp/b8/1.3B", "--ranks", "4", "--device", "h100-80gb"),
            "fsdp/b8x4/1.3B",
        ),
        (
            ("advise", f"{TRAINING}/checkpoint+fsdp/b4x4/7B", "--device", "a100-80gb"),
            "checkpoint+fsdp/b4x4/7B",
        ),
        (
            ("advise", f"{TRAINING}/checkpoint+fsdp/b4x2", "--budget", "1GiB"),
            "checkpoint+fsdp/b4x2/cpu",
        ),
        (("advise", f"{TRAINING}/fsdp/b4", "--ranks", "2", "--budget", "1GiB"), "fsdp/b4x2/cpu"),
    ],
)
def test_described_sizes_and_combinations_are_asked_over_ranks(arguments, case, reached):
    done = framebench(*arguments)
    assert done.returncode != USAGE_ERROR, done.stderr
    assert [one.id for one in reached] == [f"{TRAINING}/{case}"]
