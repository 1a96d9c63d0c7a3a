"""What is answered for PyTorch's cases on GPUs that are not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.devices.catalog import find
from framebench.devices.simulation.scope import find_scope
from framebench.suite.case import Case
from tests.conftest import list_requested
from tests.devices.fake_predictions import make_planned
from tests.marks import rarely
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "torch_plans.py"
GPU = "a100-40gb"
USUAL = (
    "fp32",
    "amp_bf16",
    "checkpoint",
    "optimizer_in_backward",
    "adamw_8bit",
    "adamw_8bit_bnb",
    "optimizer_offload",
    "compile",
)
OTHERS = (
    "amp_fp16",
    "accumulate",
    "fused_optimizer",
    "offload",
    "expandable_segments",
    "memory_fraction",
    "memory_budget",
    "compile_step",
)
TOO_LARGE = "transformer/torch/train/fp32/b512/cpu@rtx4060-8gb"
# the weights alone are more than the memory; what is copied later is bounded alone
TOO_LARGE_TO_BOUND = "transformer/torch/train/offload_streamed/b1/2.7B-l4@rtx4060-8gb"
# cuDNN's attention is preferred from 2.11 on
RELEASES = ("2.8.0+cu128", "2.12.1")
OLDER, NEWER = (
    f"transformer/torch/train/amp_bf16/b4/tiny@h100-80gb@{release}" for release in RELEASES
)
UNPLANNED = {
    f"transformer/torch/train/jit_script/b4/cpu@{GPU}": "TorchScript",
    f"transformer/torch/train/pool_off/b4/cpu@{GPU}": "asks the driver for each tensor",
    f"transformer/torch/train/compile_max_autotune/b4/cpu@{GPU}": "measured on the GPU",
    f"resnet50/torch/train/autotune/b4/tiny@{GPU}": "measured on the GPU",
    f"transformer/torch/train/offload_streamed/b4/cpu@{GPU}": "a copy on another stream",
    f"resnet50/torch/pair/scripted/b4/tiny@{GPU}": "TorchScript",
    f"resnet50/torch/pipeline/prefetch/b4/tiny@{GPU}": "the loader",
}
INT8 = [f"transformer/torch/eval/{name}/b4/cpu@{GPU}" for name in ("int8_weights", "int8_dynamic")]
Answers = dict[str, dict[str, Any]]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers(request, environment) -> Answers:
    places = [name_place(strategy) for strategy in sorted({*USUAL, *list_requested(request)})]
    places += [*UNPLANNED, TOO_LARGE, TOO_LARGE_TO_BOUND, OLDER, NEWER, *INT8]
    return run_inside(environment["torch"], PROGRAM, *places)


def name_place(strategy: str) -> str:
    return f"transformer/torch/train/{strategy}/b4/cpu@{GPU}"


@pytest.mark.parametrize("name", [*USUAL, *map(rarely, OTHERS)])
def test_every_strategy_is_planned(name, answers):
    answer = answers[name_place(name)]
    assert answer["outcome"] == "planned"
    parts = answer["parts"]
    assert answer["peak_bytes"] == parts["reserved"]
    assert parts["reserved"] >= parts["allocated"] > parts["between_steps"] > 0
    fields = {name: value for name, value in answer.items() if name != "versions"}
    assert make_planned(source="allocator.simulated", **fields), (
        "a record takes all that is answered"
    )


@pytest.mark.parametrize("place", INT8)
def test_weights_in_8_bits_take_the_place_of_those_in_32(place, answers):
    """`quantize_` drops the weights that it quantizes; the step multiplies the new ones."""
    answer = answers[place]
    assert answer["outcome"] == "planned"
    parts = answer["parts"]
    assert parts["between_steps"] - parts["workspaces"] < 1.1 * parts["weights"]


def test_padding_by_inductor_is_listed_as_not_predicted(answers):
    # `not_held` lists what the predicted peak does not contain
    of_compiled = "\n".join(answers[name_place("compile")]["not_held"])
    of_eager = "\n".join(answers[name_place("fp32")]["not_held"])
    assert "Inductor pads" in of_compiled
    assert of_eager
    assert "Inductor" not in of_eager


def test_strategies_change_their_parts_of_the_peak(answers):
    """The bytes of each kind are compared with the baseline's."""
    base = answers[name_place("fp32")]["parts"]
    weights = base["weights"]
    states = base["optimizer_states"]
    activations = base["activations"]

    def read_part(strategy, part):
        return answers[name_place(strategy)]["parts"][part]

    assert states == pytest.approx(2 * weights, rel=0.02), "two moments"
    assert read_part("adamw_8bit", "optimizer_states") == pytest.approx(states / 4, rel=0.05)
    assert read_part("optimizer_offload", "optimizer_states") < states / 50
    assert read_part("checkpoint", "activations") < activations / 2
    assert read_part("amp_bf16", "activations") < activations
    gradients_saved = base["between_steps"] - read_part("optimizer_in_backward", "between_steps")
    assert gradients_saved > 0.9 * weights


@pytest.mark.parametrize("place", UNPLANNED)
def test_unpredicted_cases_have_a_reason(place, answers):
    assert answers[place]["outcome"] == "not planned"
    assert UNPLANNED[place] in answers[place]["reason"]


@pytest.mark.parametrize("strategy", ["jit_script", "compile_max_autotune", "pool_off"])
def test_an_unpredicted_case_is_bounded_by_the_eager_step(strategy, answers):
    """Weights, gradients and two moments exist together; no step has fewer tensors."""
    answer = answers[name_place(strategy)]
    eager = answers[name_place("fp32")]["parts"]
    lasting = 4 * eager["weights"]
    assert lasting <= answer["parts"]["at_least"] * 1.01, "what is rounded up is not counted"
    assert answer["parts"]["at_least"] <= eager["allocated"]
    (note,) = answer["notes"]
    assert "at least" in note


@pytest.mark.parametrize("place", [*map(name_place, USUAL), *UNPLANNED])
def test_the_table_of_what_is_answered_says_what_the_planner_answers(place, answers):
    case = Case.from_id(place.partition("@")[0])
    scope = find_scope(case, has_convolutions=case.workload == "resnet50", asks_cudnn=False)
    answer = answers[place]
    assert (scope == "answered") == (answer["outcome"] == "planned")
    assert ("at_least" in answer["parts"]) == scope.startswith("bounded")
    assert ("at_most" in answer["parts"]) == (scope == "bounded from both sides")


def test_memory_without_the_pool_is_bounded_from_above(answers):
    """Each tensor has pages of 2 MiB to itself, and no more than one page is lost."""
    parts = answers[name_place("pool_off")]["parts"]
    eager = answers[name_place("fp32")]["parts"]
    assert parts["at_least"] > answers[name_place("jit_script")]["parts"]["at_least"]
    assert eager["allocated"] < parts["at_most"]


def test_a_refused_case_says_how_much_it_needs(answers):
    refused = answers[TOO_LARGE]
    assert refused["outcome"] == "refused"
    assert refused["needs_bytes"] > 11 * 2**30
    assert f"would reserve {refused['needs_bytes'] / 2**30:.1f} GiB" in refused["reason"]
    assert refused["peak_bytes"] is None
    # what is in use is said by its parts, and is less than what the pool would reserve
    assert 0 < refused["parts"]["weights"] < refused["parts"]["allocated"] <= refused["needs_bytes"]


def test_a_step_that_is_bounded_alone_is_bounded_beyond_the_memory_too(answers):
    answer = answers[TOO_LARGE_TO_BOUND]
    assert answer["outcome"] == "not planned"
    assert "a copy on another stream" in answer["reason"]
    assert answer["parts"]["at_least"] > find("rtx4060-8gb").memory_bytes


def test_attention_kernels_follow_the_release(answers):
    kernels = [answers[place]["flags"]["attention"] for place in (OLDER, NEWER)]
    assert kernels == ["flash_attention", "cudnn_attention"]
    (note,) = answers[OLDER]["notes"]
    assert "those of PyTorch 2.13 for all" in note


def test_streamed_offloading_is_bounded_by_instant_and_by_slow_copies(answers):
    """With instant copies a tensor is gone as soon as its copy is asked for; with slow ones all are
    still there when the first are copied back.
    """
    parts = answers[name_place("offload_streamed")]["parts"]
    eager = answers[name_place("fp32")]["parts"]
    weights_gradients_and_moments = 4 * eager["weights"]
    assert weights_gradients_and_moments <= parts["at_least"] * 1.01
    assert parts["at_least"] < eager["allocated"] - eager["activations"] / 2
    assert parts["at_most"] > eager["reserved"]
