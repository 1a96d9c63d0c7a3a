"""What training scripts ask of `torch.cuda`, answered as on the GPU that is simulated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from framebench.devices import find_device
from framebench.devices.catalog import CONTEXT
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "cuda_scripts.py"
WEIGHT = 4 * 1024 * 1024  # bytes of the layer's matrix
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts(environment) -> dict[str, Any]:
    """Return what `cuda_scripts.py` prints: answers to questions, and bytes by script."""
    return run_inside(environment["torch"], PROGRAM)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("get_device_name", find_device("a100-40gb").title),
        ("get_device_capability", [8, 0]),
        ("total_memory", find_device("a100-40gb").memory_bytes),
        ("is_bf16_supported", True),
        ("is_bf16_native", True),
        ("accelerator", "cuda"),
        ("is_cuda", True),
        ("device of a tensor", "cuda:0"),
        ("device of a host tensor", "cpu"),
        ("pinned", True),
        ("scaler is on", True),
        ("elapsed time", "nan"),  # no speed is predicted
    ],
)
def test_a_script_gets_the_answers_of_the_simulated_gpu(scripts, question, answer):
    assert scripts["a100"][question] == answer


@pytest.mark.parametrize(("module", "fewest"), [("torch.cuda", 50), ("torch.accelerator", 15)])
def test_every_function_is_answered_or_refused_with_the_reason(scripts, module, fewest):
    functions = scripts[f"all of {module}"]
    answered = []
    for name, function in functions.items():
        if function == {"outcome": "answered", "lacking": []}:
            answered.append(name)
        else:
            refusal = r"NotImplementedError: .* is not simulated: "
            assert re.match(refusal, function["outcome"], re.DOTALL), (name, function)
    assert len(answered) >= fewest


def test_an_older_gpu_answers_for_itself(scripts):
    assert scripts["v100"]["get_device_capability"] == [7, 0]
    assert scripts["v100"]["is_bf16_native"] is False
    assert scripts["v100"]["total_memory"] == find_device("v100-16gb").memory_bytes


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("utilization", "torch.cuda.utilization is not simulated: only the GPU itself can tell"),
        ("graph", "torch.cuda.CUDAGraph is not simulated: CUDA graphs keep their memory"),
        ("second GPU", "names cuda:1, and one GPU is simulated"),
        ("second GPU by number", "names cuda:1, and one GPU is simulated"),
        ("second GPU as the current one", "names cuda:1, and one GPU is simulated"),
    ],
)
def test_what_is_not_simulated_is_refused_with_the_reason(scripts, question, reason):
    assert reason in scripts["a100"][question]


def test_a_script_reads_the_memory_that_is_simulated(scripts):
    read = scripts["own memory"]
    total = find_device("a100-40gb").memory_bytes
    assert read["between"] == read["simulated between"]
    assert read["peak"] == read["peak of statistics"] == read["simulated"]
    assert read["reserved"] == read["simulated reserved"]
    assert (read["free"], read["total"]) == (total - read["reserved"] - CONTEXT[1], total)
    assert read["between"] <= read["peak after a reset"] < read["peak"]
    assert "no such statistic" not in read


@pytest.mark.parametrize(
    "script",
    [
        "make_chosen_step",
        "make_default_step",
        "make_context_step",
        "make_generator_step",
        "make_wrapped_step",
        "make_loaded_step",
    ],
)
def test_a_script_that_finds_its_own_gpu_takes_the_memory_of_one_that_is_given_it(scripts, script):
    for kind in ("weights", "gradients", "optimizer states"):
        assert scripts[script][kind] == scripts["make_layer_step"][kind] > 0


@pytest.mark.parametrize("script", ["make_outside_step", "make_outside_model_step"])
def test_a_script_that_runs_on_the_cpu_is_refused(scripts, script):
    assert scripts[script].startswith("StepOnHost: the step ran on the CPU (programs/training.py:")


def test_a_script_may_limit_its_own_memory(scripts):
    assert scripts["make_limited_step"].startswith("GpuOutOfMemory: CUDA out of memory.")


def test_a_compiled_model_may_name_its_device(scripts):
    assert scripts["make_compiled_step"]["weights"] >= WEIGHT


def test_nothing_of_a_simulation_stays(scripts):
    assert scripts["is there CUDA afterwards"] is False
    assert scripts["device afterwards"] == "cpu"
