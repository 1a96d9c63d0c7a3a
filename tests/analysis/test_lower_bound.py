"""Lower bounds: exact where something exact can be counted, below every measured peak, and not far
below what PyTorch saves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.analysis import frames, lower_bound
from framebench.analysis.breakdown import PARTS, split_peaks
from framebench.engine.environments import Environment
from framebench.models import spec
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.suite.selectors import parse
from tests.processes import run_inside
from tests.sample_records import records

BASE = {w: spec.load_workload(w).preset("tiny").base for w in spec.list_workloads()}
LAYERS: dict[str, Any] = {
    w: spec.load_workload(w).layers for w in spec.list_workloads() if spec.load_workload(w).layers
}


def measured() -> list[Record]:
    return [r for r in records() if r.status == "ok" and r.peaks]


def test_every_weight_belongs_to_one_layer() -> None:
    for workload in map(spec.load_workload, LAYERS):
        for config in [
            workload.config("tiny"),
            *(workload.config("tiny", v) for v in workload.variants),
        ]:
            layers = [k.name for k in LAYERS[workload.name](config, {})]
            assert len(layers) == len(set(layers))
            assert {p.name.rpartition(".")[0] for p in workload.params(config)} <= set(layers)


def test_a_layer_of_the_transformer_by_korthikanti() -> None:
    """s b h (34 + 5 a s / h) bytes in 16 bits, less what dropout adds: masks (2 s h, a s^2) and
    repeated scores (2 a s^2).
    """
    c = spec.load_workload("transformer").config("full")
    plain = [
        k.elements
        for k in LAYERS["transformer"](c, {"attention_plain": {}})
        if k.block == "blocks.0"
    ]
    s, h, a = c.length, c.width, c.heads
    assert 2 * sum(plain) == s * h * (34 + 5 * a * s // h) - 2 * s * h - 3 * a * s * s
    fused = [k.elements for k in LAYERS["transformer"](c, {}) if k.block == "blocks.0"]
    assert sum(fused) == 16 * s * h + a * s


def test_resnet50_keeps_what_is_known_of_it() -> None:
    """Two tensors per convolution.

    He et al.'s network has 11.1 million convolution outputs per image of 224 px.
    """
    c = spec.load_workload("resnet50").config("full")
    outputs = sum(
        k.elements
        for k in LAYERS["resnet50"](c, {})
        if ".bn" in f".{k.name}" or k.name.endswith("downsample.1")
    )
    assert outputs == 11_113_984


def test_every_case_has_a_lower_bound_that_no_strategy_raises() -> None:
    """Saving strategies lower it, everything else leaves it; only other models, batches and held
    copies differ.
    """
    for case in (
        c
        for c in list_cases()
        if c.size == "tiny" and c.batch == BASE[c.workload] and c.support.supported
    ):
        found = lower_bound.compute_lower_bound(case)
        assert found.total > 0, case.id
        assert min(found.__dict__.values()) >= 0, case.id
    train = {
        s: lower_bound.compute_lower_bound(parse(f"transformer/torch/train/{s}/b8/cpu")).total
        for s in SAVING
    }
    assert sorted(train, key=train.__getitem__, reverse=True) == SAVING


SAVING = [
    "attention_plain",
    "fp32",
    "chunked_loss",
    "amp_bf16",
    "accumulate",
    "checkpoint",
    "checkpoint+accumulate",
]


def test_adafactor_keeps_a_number_for_each_row_and_column() -> None:
    """Of a Transformer of 2 layers of width 16, 16 tokens and a vocabulary of 64."""
    rows_and_columns = (64 + 16) + (16 + 16) + 2 * ((48 + 16) + (16 + 16) + 2 * (64 + 16))
    vectors = 2 * 16 + 2 * (2 * 2 * 16 + 48 + 16 + 64 + 16)
    assert lower_bound.count_optimizer_bytes(
        parse("transformer/torch/train/adafactor/b4/tiny")
    ) == 4 * (rows_and_columns + vectors)


def test_activations_are_proportional_to_the_batch() -> None:
    for workload in spec.list_workloads():
        one, four = (
            lower_bound.count_forward_bytes(Case(workload, "torch", "eval", "grad", b, "tiny"))
            for b in (1, 4)
        )
        assert four == 4 * one


@pytest.mark.parametrize(
    ("strategy", "part"),
    [
        ("offload", "activations"),
        ("offload_streamed", "activations"),
        ("optimizer_offload", "optimizer"),
    ],
)
def test_what_waits_in_host_memory_is_not_needed_on_the_card(strategy: str, part: str) -> None:
    base, moved = (
        lower_bound.compute_lower_bound(parse(f"transformer/torch/train/{s}/b4/full"))
        for s in ("fp32", strategy)
    )
    assert getattr(moved, part) == 0 < getattr(base, part)
    assert moved.total < base.total
    assert moved.parameters == base.parameters


PROGRAMS = Path(__file__).parent / "programs"
STATE = PROGRAMS / "lower_bound_state.py"


def chosen() -> list[Case]:
    strategies = {
        "train": ("fp32", "width_half", "grouped", "depthwise", "student", "depth_4", "long"),
        "finetune": ("half", "head"),
    }
    strategies |= {"eval": ("grad", "no_grad", "bf16")}
    wanted = {(scenario, strategy) for scenario, names in strategies.items() for strategy in names}
    cases = (
        c
        for c in list_cases()
        if c.framework == "torch" and c.size == "tiny" and (c.scenario, c.strategy) in wanted
    )
    return [c for c in cases if c.batch == BASE[c.workload] and c.support.supported]


@pytest.fixture(scope="module")
def states(environment: dict[str, Environment]) -> dict[str, dict[str, int]]:
    rows: Any = run_inside(environment["torch"], STATE, *(c.id for c in chosen()))
    return rows


def test_what_lives_between_two_steps_is_counted_exactly(states: dict[str, dict[str, int]]) -> None:
    """Beside it there are only counters of steps and batches, and PyTorch's empty last output."""
    for case in chosen():
        found = states[case.id]
        trains = case.stage.trains
        expected = {
            "parameters": lower_bound.count_stored_bytes(case, trainable=True),
            "buffers": lower_bound.count_stored_bytes(case, trainable=False),
            "gradients": sum(lower_bound.count_gradient_bytes(case).values()) if trains else 0,
            "optimizer": lower_bound.count_optimizer_bytes(case) if trains else 0,
            "inputs": lower_bound.count_input_bytes(case),
        }
        assert {name: found[name] for name in expected} == expected, case.id
        assert found["live"] == sum(expected.values()) + found["counters"], case.id
        assert found["counters"] <= 8 * len(list(case.spec.params(case.config)))


def test_what_the_backward_pass_keeps(states: dict[str, dict[str, int]]) -> None:
    """PyTorch saves at least the bound and at most a quarter more, but for a loss that makes most
    of it: U-Net's, head only.
    """
    for case in (
        c for c in chosen() if c.workload in LAYERS and c.strategy not in ("no_grad", "bf16")
    ):
        least = (
            lower_bound.get_activation_width(case)
            * case.batch
            * sum(k.elements for k in lower_bound.list_backward_layers(case))
        )
        if case.scenario == "eval":
            least -= (
                lower_bound.get_activation_width(case)
                * case.batch
                * lower_bound.list_backward_layers(case)[-1].elements
            )  # without a loss none keeps the logits
        assert least <= states[case.id]["saved"], case.id
        most = 2 if (case.workload, case.strategy) == ("unet3d", "head") else 1.25
        assert states[case.id]["saved"] <= most * least, (case.id, states[case.id]["saved"] / least)


def test_the_breakdown_sums_to_the_peak() -> None:
    split = split_peaks(frames.make_frame(measured()))
    assert (split[list(PARTS)].sum(axis=1) == split["lower_bound"]).all()
    assert (split["lower_bound"] + split["rest"] == split["step_bytes"]).all()
    assert (split["peak_over_bound"] >= 1).all()
