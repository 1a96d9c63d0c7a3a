"""Operations counted against published figures."""

from __future__ import annotations

from math import prod

import pytest

from framebench.analysis.flops import count_forward_flops, count_step_flops
from framebench.suite.case import Case
from framebench.suite.selectors import parse


def case(text: str) -> Case:
    return parse(f"{text}/full")


def test_resnet50_has_4_089_gmacs_at_224_pixels() -> None:
    """torchvision's documentation of resnet50 (v1.5) says 4.09 GFLOPS, by which it means
    multiply-adds.
    """
    assert count_forward_flops(case("resnet50/torch/train/fp32/b32")) / 32 / 2 == pytest.approx(
        4.089e9, rel=1e-3
    )


def test_a_transformer_s_token_costs_6n_and_12_l_h_s() -> None:
    """PaLM, appendix B, with N the parameters of products: norms, biases and positions take part in
    none.
    """
    one = case("transformer/torch/train/fp32/b4")
    c = one.config
    products = sum(
        prod(p.shape) for p in one.spec.params(c) if len(p.shape) == 2 and p.name != "wpe.weight"
    )
    assert count_step_flops(one) == 4 * c.length * (
        6 * products + 12 * c.layers * c.width * c.length
    )


def test_unet3d_s_last_level_by_hand() -> None:
    """The head: a 1x1x1 convolution from 32 channels to 3 at every voxel; halving the filters
    quarters nearly everything.
    """
    whole, half = (
        count_forward_flops(case(f"unet3d/torch/train/{s}/b4")) for s in ("fp32", "width_half")
    )
    assert 3.9 < whole / half < 4
    head = 2 * 128**3 * 32 * 3
    assert whole / 4 > 100 * head


def test_training_costs_three_forward_passes_and_checkpointing_no_more() -> None:
    """Model FLOPs: what is computed again does not count."""
    plain, again, evaluated = (
        case(f"resnet50/torch/{s}/b64") for s in ("train/fp32", "train/checkpoint", "eval/no_grad")
    )
    assert (
        count_step_flops(plain) == count_step_flops(again) == 3 * (count_step_flops(evaluated) or 0)
    )
    assert count_step_flops(case("resnet50/torch/pair/together/b64")) is None
