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

    def plan_none(wanted, *rest, **options):
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
        (
            ("advise", f"{TRAINING}/fsdp/b8x4", "--parameters", "7B", "--device", "a100-80gb"),
            "fsdp/b8x4/7B",
        ),
    ],
)
def test_described_sizes_and_combinations_are_asked_over_ranks(arguments, case, reached):
    done = framebench(*arguments)
    assert done.returncode != USAGE_ERROR, done.stderr
    assert [one.id for one in reached] == [f"{TRAINING}/{case}"]


def test_a_described_model_over_ranks_is_searched_for_its_largest_batch(reached):
    described = ("--parameters", "7B", "--sequence", "2048")
    done = framebench("advise", TRAINING, *described, "--ranks", "4", "--device", "a100-80gb")
    assert done.returncode != USAGE_ERROR, done.stderr
    assert {case.size for case in reached} == {"7B-s2048"}
    assert {case.ranks for case in reached} == {4}


def test_a_size_that_contradicts_the_parameters_is_refused_over_ranks(reached):
    question = (f"{TRAINING}/fsdp/b8x4/full", "--parameters", "7B", "--device", "a100-80gb")
    done = framebench("advise", *question, code=USAGE_ERROR)
    assert "--parameters describe another size than full" in done.stderr
    assert reached == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", f"{TRAINING}/fsdp/b8", "--ranks", "4"),
        ("predict", f"{TRAINING}/fsdp/b8x4"),
        ("advise", f"{TRAINING}/fsdp/b8", "--ranks", "4"),
        ("advise", f"{TRAINING}/fsdp/b8x4"),
        ("advise", f"{TRAINING}/fsdp", "--ranks", "4"),
        ("max-batch", f"{TRAINING}/fsdp", "--ranks", "4"),
        ("explain", f"{TRAINING}/fsdp/b8x4"),
    ],
    ids=" ".join,
)
def test_cases_without_a_size_mean_the_full_size_on_a_device(arguments, reached):
    done = framebench(*arguments, "--device", "a100-80gb")
    assert done.returncode != USAGE_ERROR, done.stderr
    assert {case.size for case in reached} == {"full"}
