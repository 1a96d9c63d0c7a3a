"""The error that an answer states: that of its own kind of prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.devices.catalog import find
from framebench.devices.needs import INTERVALS, TITLES
from framebench.devices.plans.answer import ASKED, CONVOLUTIONS, NOT_ASKED, STEP_KIND
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.errors import describe_errors, tabulate_errors
from framebench.devices.tables.table import tabulate_cases
from tests.devices.fake_predictions import MIB, make_interval, make_planned

GPU = find("h100-80gb")
PLAIN = "torch, texts of one length"


def make_torch(case: str, **flags: str) -> Planned:
    """Return a simulation of 100 MiB."""
    return make_planned(
        case=case,
        framework="torch",
        source="allocator.simulated",
        peak_bytes=100 * MIB,
        parts={"allocated": 90 * MIB},
        flags=flags,
    )


@pytest.mark.parametrize(
    ("case", "flags", "kind"),
    [
        ("transformer/torch/train/fp32/b8/full", {}, PLAIN),
        ("transformer/torch/varlen/raw/b8/full", {}, "torch, padded texts"),
        ("transformer/torch/finetune/lora/b8/full", {}, "torch, frozen weights"),
        ("transformer/torch/train/compile/b8/full", {}, "torch, compiled"),
        ("transformer/torch/train/fsdp/b8x8/full", {}, "torch, ranks"),
        ("resnet50/torch/train/fp32/b8/full", {CONVOLUTIONS: ASKED}, "torch, convolutions"),
        (
            "resnet50/torch/train/compile/b8/full",
            {CONVOLUTIONS: NOT_ASKED},
            "torch, convolutions without workspaces",
        ),
        ("transformer/torch/train/fp32/b8/full", {STEP_KIND: "torch"}, "torch"),
        ("unet3d/torch/train/fp32/b4/full", {}, "torch, convolutions without workspaces"),
        ("transformer/jax/train/fsdp/b8x8/full", {}, "jax"),
    ],
)
def test_a_prediction_is_of_the_kind_of_its_step(case, flags, kind):
    framework = case.split("/")[1]
    assert make_planned(case=case, framework=framework, flags=flags).kind == kind


def test_an_answer_states_the_errors_of_its_kinds_alone(monkeypatch):
    monkeypatch.setitem(INTERVALS, "torch, texts of one length", make_interval(-0.02, 0.01))
    monkeypatch.setitem(INTERVALS, "torch, compiled", make_interval(0.0, 0.04, rows=4))
    plain = make_torch("transformer/torch/train/fp32/b8/full")
    compiled = make_torch("transformer/torch/train/compile/b8/full")
    described = describe_errors([plain, compiled])
    assert described == (
        "PyTorch, compiled step: not judged: 4 rows, the worst 4.0% too low; "
        "PyTorch, texts of one length: median 2.0%, nine of ten within 2.0%; in each family nine "
        "of ten at most 1.0% too low and at most 2.0% too high; 10 rows of one source"
    )
    shown = tabulate_cases([plain, compiled], GPU)
    assert described in shown.caption
    assert shown.texts["reserved MiB"] == ["100.0 (98 to 101)", "100.0 (error not judged)"]


@pytest.mark.parametrize(
    ("strategy", "doubt"),
    [
        ("fp32", ""),
        ("amp_bf16", ""),
        ("checkpoint", ", none of a step in '32 bits, recomputed'"),
        ("amp_bf16+checkpoint", ", none of a step in '16 bits, recomputed'"),
    ],
)
def test_an_answer_says_what_the_rows_behind_its_error_lack(monkeypatch, strategy, doubt):
    interval = replace(make_interval(-0.02, 0.01), steps={"32 bits": 4, "16 bits": 6})
    monkeypatch.setitem(INTERVALS, PLAIN, interval)
    described = describe_errors([make_torch(f"transformer/torch/train/{strategy}/b8/full")])
    assert described.endswith(f"10 rows of one source{doubt}")


def test_an_answer_over_ranks_says_that_nccl_is_not_in_it():
    described = describe_errors([make_torch("transformer/torch/train/fsdp/b8x8/full")])
    assert "NCCL" in described
    assert "NCCL" not in describe_errors([make_torch("transformer/torch/train/fp32/b8/full")])


def test_the_table_has_a_number_or_says_that_nothing_was_judged(monkeypatch):
    monkeypatch.setitem(INTERVALS, "torch", make_interval(-0.02, 0.01))
    monkeypatch.setitem(INTERVALS, "jax", make_interval(0.0, 0.08, rows=3))
    cells = {row[0]: row[4:] for row in tabulate_errors(INTERVALS).rows}
    assert cells[TITLES["torch"]] == ("2.0%", "2.0%", "1.0%", "2.0%")
    assert cells[TITLES["jax"]] == ("not judged: 3 rows", "-", "-", "-")
    assert cells["speed"][0] == "not predicted, not judged: 0 rows"
