"""The command `advise`: for people, for programs, and what a mistake is answered with."""

from __future__ import annotations

import re
import shlex

import pytest

from framebench.analysis.frames import Row
from framebench.analysis.peaks import read_evidence
from framebench.budget.advise import show
from framebench.budget.advise.advice import Question, advise
from framebench.budget.max_batch.measure import probe_once
from framebench.records.provenance import read_machine_name
from tests.processes import framebench
from tests.sample_records import IN_HERE, MACHINE, RESULTS


def test_the_command_answers_in_a_sentence_and_five_rows():
    arguments = "advise", "transformer/*/train", "--budget", "512MiB", *IN_HERE
    short = framebench(*arguments).stdout
    long = framebench(*arguments, "--all").stdout
    headline, rows_of_short = short.split("\n", 1)
    assert headline.startswith(
        f"transformer train, size cpu (256 tokens a sample), within 512.0 MiB for the job "
        f"alone, without the libraries, by {MACHINE}: torch "
    )
    rows_of_long = long.split("\n", 1)[1]
    assert rows_of_short.count("tokens/s") == show.MOST_CANDIDATES_SHOWN
    assert rows_of_long.count("tokens/s") > show.MOST_CANDIDATES_SHOWN
    assert "--all also shows" in short
    assert "--all also shows" not in long


def test_advise_prints_whether_a_strategy_fits_already():
    question = "advise", "transformer////b4", *IN_HERE
    done = framebench(*question, "--budget", "8GiB", "--from", "fp32")
    assert "fits already" in done.stdout, done.stderr
    tight = framebench(*question, "--budget", "1MiB", code=1)
    assert "nothing fits" in tight.stdout
    described = framebench("advise", "--budget", "64GiB", "--parameters", "124M", *IN_HERE)
    assert "layers 12" in described.stderr


def test_without_records_commands_for_what_was_asked_alone_are_suggested():
    question = "unet3d/jax/eval/*/b4/full"
    done = framebench("advise", question, "--budget", "4GiB", *IN_HERE, code=1)

    assert done.stderr.endswith(
        f"measure first (size full is for GPUs, and takes hours on a CPU): "
        f"framebench run '{question}' --results {RESULTS}\n"
    )
    (predict,) = re.findall(r"framebench (predict [^;]*)", done.stderr)
    assert predict == f"predict unet3d/jax/eval/no_grad/b4/full --results {RESULTS}"
    assert "lower bound" in framebench(*shlex.split(predict)).stdout


def test_an_unmeasured_strategy_of_the_user_is_suggested_to_be_measured():
    done = framebench(
        "advise", "transformer/torch/train", "--budget", "1GiB", "--from", "tf32", *IN_HERE
    )
    command = f"framebench run 'transformer/torch/train/tf32/*/cpu' --results {RESULTS}"
    assert done.stderr.endswith(f"measure first: {command}\n")


@pytest.fixture(scope="module")
def measured(environment, tmp_path_factory) -> list[Row]:
    """Return the rows of two strategies, measured on this machine now."""
    results = tmp_path_factory.mktemp("advice") / "results"
    cases = "transformer/torch/train/{fp32,checkpoint}/b4/cpu"
    framebench("run", cases, "--rounds", 0, results=results, code=0)
    return read_evidence(results, read_machine_name(), "transformer", "train")[0]


@pytest.mark.slow
@pytest.mark.all_cases
def test_of_two_strategies_only_the_one_that_is_said_to_fit_runs(measured, environment):
    """The budget is an enforced limit, in a fresh process for each."""
    larger, smaller = sorted((row.peak_bytes or 0 for row in measured), reverse=True)
    budget = (larger + smaller) // 2

    advice = advise([measured], Question("transformer", "train", budget, ("torch",), batch=4))

    (fits,), (too_large,) = advice.fitting, advice.too_large
    assert try_case(fits.case, budget, environment) == "fits"
    assert try_case(too_large.case, budget, environment) == "memory"


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_largest_batch_that_is_said_to_fit_runs(measured, environment):
    budget = sum(row.peak_bytes or 0 for row in measured)  # enough for either at some batch
    advice = advise([measured], Question("transformer", "train", budget, ("torch",), batch=None))
    assert not advice.too_large
    assert try_case(advice.fitting[0].case, budget, environment) == "fits"


def try_case(case, budget, environment):
    """Return how a case ends in a process that may take no more than the budget."""
    probe = probe_once(case, budget, environment[case.framework])
    assert probe.limited, "the kernel enforced the limit"
    return probe.outcome
