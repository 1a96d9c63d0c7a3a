"""Lower bounds: exact where something can be counted, and below every measured peak."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis import frames, lower_bound
from framebench.analysis.breakdown import PARTS, split_peaks
from framebench.models import spec
from framebench.models.layer import Layer
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import parse
from tests.processes import run_inside
from tests.sample_records import read_sample

WORKLOADS = [spec.load_workload(name) for name in spec.list_workloads()]
WITH_LAYERS = [workload for workload in WORKLOADS if workload.layers]


def declare_layers(name: str, size: str, switches: dict[str, Any]) -> list[Layer]:
    """Return the layers of a workload, from the input to the loss."""
    workload = spec.load_workload(name)
    assert workload.layers
    return list(workload.layers(workload.config(size), switches))


def list_tiny_cases() -> list[Case]:
    """Return the supported cases of the size tiny, at the usual batch."""
    cases = []
    for case in list_cases():
        is_usual = case.size == "tiny" and case.batch == case.workload_spec.preset("tiny").base
        if is_usual and case.support.supported:
            cases.append(case)
    return cases


@pytest.mark.parametrize("workload", WITH_LAYERS, ids=attrgetter("name"))
def test_every_weight_belongs_to_one_layer(workload):
    assert workload.layers
    for variant in ("", *workload.variants):
        config = workload.config("tiny", variant)
        layers = [layer.name for layer in workload.layers(config, {})]
        with_weights = {param.name.rpartition(".")[0] for param in workload.params(config)}
        assert len(layers) == len(set(layers))
        assert with_weights <= set(layers)


def test_plain_attention_saves_the_bytes_of_korthikanti_et_al():
    """A layer saves s b h (34 + 5 a s / h) bytes in 16 bits, here less what dropout adds.

    https://arxiv.org/abs/2205.05198, section 4.1; s is the length, b the batch (1 here), h the
    width, a the number of heads.
    """
    config = spec.load_workload("transformer").config("full")
    s, h, a = config.length, config.width, config.heads
    hidden = s * h  # numbers of the hidden state
    scores = a * s * s  # numbers of all heads' scores
    with_dropout = 34 * hidden + 5 * scores
    masks = 2 * hidden + scores  # a byte for each element
    repeated_scores = 2 * scores  # the output of attention's dropout
    elements = 0
    for layer in declare_layers("transformer", "full", {"attention_plain": {}}):
        if layer.block == "blocks.0":
            elements += layer.elements
    bytes_in_16_bits = 2 * elements
    assert bytes_in_16_bits == with_dropout - masks - repeated_scores


def test_resnet50_has_the_outputs_that_he_et_al_count():
    """The convolutions of ResNet-50 have 11.1 million outputs per image of 224 px."""
    outputs = 0
    for layer in declare_layers("resnet50", "full", {}):
        if ".bn" in f".{layer.name}" or layer.name.endswith("downsample.1"):
            outputs += layer.elements
    assert outputs == 11_113_984


def test_saving_strategies_lower_the_bound():
    in_order = [
        "attention_plain",
        "fp32",
        "chunked_loss",
        "amp_bf16",
        "accumulate",
        "checkpoint",
        "checkpoint+accumulate",
    ]
    totals = []
    for strategy in in_order:
        case = parse(f"transformer/torch/train/{strategy}/b8/cpu")
        totals.append(lower_bound.compute_lower_bound(case).total)
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals)


def test_an_optimizer_in_the_backward_pass_needs_gradients_of_one_layer():
    gradients = []
    for strategy in ("checkpoint", "checkpoint+optimizer_in_backward"):
        case = parse(f"transformer/torch/train/{strategy}/b1/cpu")
        gradients.append(lower_bound.compute_lower_bound(case).gradients)
    usual, in_backward = gradients
    assert 0 < 10 * in_backward < usual


def test_adafactor_keeps_a_number_for_each_row_and_column():
    """The Transformer has 2 layers of width 16, 16 tokens and a vocabulary of 64."""
    embeddings = (64 + 16) + (16 + 16)
    matrices_of_a_layer = (48 + 16) + (16 + 16) + (64 + 16) + (16 + 64)
    norm = 2 * 16
    vectors_of_a_layer = 2 * norm + 48 + 16 + 64 + 16
    numbers = embeddings + 2 * (matrices_of_a_layer + vectors_of_a_layer) + norm
    case = parse("transformer/torch/train/adafactor/b4/tiny")
    assert lower_bound.count_optimizer_bytes(case) == 4 * numbers


@pytest.mark.parametrize(
    ("strategy", "part"),
    [
        ("offload", "activations"),
        ("offload_streamed", "activations"),
        ("optimizer_offload", "optimizer"),
    ],
)
def test_the_bound_on_a_gpu_leaves_out_offloaded_parts(strategy, part):
    case = parse("transformer/torch/train/fp32/b4/full")
    base = lower_bound.compute_lower_bound(case)
    offloaded = lower_bound.compute_lower_bound(replace(case, strategy=strategy))
    assert getattr(base, part) > 0
    assert getattr(offloaded, part) == 0
    assert offloaded.total < base.total
    assert offloaded.parameters == base.parameters


STATE = Path(__file__).parent / "programs" / "lower_bound_state.py"
STRATEGIES = {
    "train": ("fp32", "width_half", "grouped", "depthwise", "student", "depth_4", "long"),
    "finetune": ("half", "head"),
    "eval": ("grad", "no_grad", "bf16"),
}
States = dict[str, dict[str, int]]


def list_observed_cases() -> list[Case]:
    """Return the cases whose states PyTorch is asked for."""
    cases = []
    for case in list_tiny_cases():
        if case.framework == "torch" and case.strategy in STRATEGIES.get(case.scenario, ()):
            cases.append(case)
    return cases


@pytest.fixture(scope="module")
def states(environment) -> States:
    """Return the bytes that PyTorch holds in a step of each case, by what they are."""
    ids = [case.id for case in list_observed_cases()]
    return run_inside(environment["torch"], STATE, *ids)


def test_bytes_that_live_between_two_steps_are_counted_exactly(states):
    """Next to it there are only counters of steps and batches, and PyTorch's empty last output."""
    cases = list_observed_cases()
    assert {case.scenario for case in cases} == set(STRATEGIES)
    for case in cases:
        observed = states[case.id]
        expected = {
            "parameters": lower_bound.count_stored_bytes(case, trainable=True),
            "buffers": lower_bound.count_stored_bytes(case, trainable=False),
            "inputs": lower_bound.count_input_bytes(case),
            "gradients": 0,
            "optimizer": 0,
        }
        if case.scenario_spec.trains:
            expected["gradients"] = sum(lower_bound.count_gradient_bytes(case).values())
            expected["optimizer"] = lower_bound.count_optimizer_bytes(case)
        assert {name: observed[name] for name in expected} == expected, case.id
        assert observed["live"] == sum(expected.values()) + observed["counters"], case.id
        assert observed["counters"] <= 8 * len(list(case.workload_spec.params(case.config)))


def test_pytorch_saves_at_most_a_quarter_more_than_the_bound(states):
    cases = []
    for case in list_observed_cases():
        if case.workload_spec.layers and case.strategy not in ("no_grad", "bf16"):
            cases.append(case)
    assert {case.scenario for case in cases} == set(STRATEGIES)
    for case in cases:
        layers = lower_bound.list_backward_layers(case)
        if case.scenario == "eval":
            layers = layers[:-1]  # without a loss none keeps the logits
        elements = sum(layer.elements for layer in layers)
        least = lower_bound.get_activation_width(case) * case.batch * elements
        most = 1.25 * least
        if case.workload == "unet3d" and case.strategy == "head":
            most = 2 * least  # the loss is most of what is saved
        assert least <= states[case.id]["saved"] <= most, case.id


def test_the_breakdown_sums_to_the_peak():
    measured = [record for record in read_sample() if record.status == "ok" and record.peaks]
    split = split_peaks(frames.make_frame(measured))
    sums = split[list(PARTS)].sum(axis=1)
    assert (sums == split["lower_bound"]).all()
    assert (split["lower_bound"] + split["rest"] == split["step_bytes"]).all()
    assert (split["peak_over_bound"] >= 1).all()
