"""Operations counted against published figures."""

from __future__ import annotations

from math import prod

import pytest

from framebench.analysis.flops import count_forward_flops, count_step_flops
from framebench.suite.case import Case
from framebench.suite.selectors import parse


def make_case(text: str) -> Case:
    """Return a case of the size full."""
    return parse(f"{text}/full")


def test_resnet50_has_4_089_gmacs_at_224_pixels():
    """torchvision's documentation says 4.09 GFLOPS (v1.5), by which it means multiply-adds."""
    flops = count_forward_flops(make_case("resnet50/torch/train/fp32/b32"))
    assert flops / 32 / 2 == pytest.approx(4.089e9, rel=1e-3)


def test_a_token_of_a_transformer_costs_6n_and_12_l_h_s():
    """PaLM, appendix B, with N the parameters of matmuls: not norms, biases and positions."""
    case = make_case("transformer/torch/train/fp32/b4")
    config = case.config
    weights = 0
    for param in case.workload_spec.params(config):
        if len(param.shape) == 2 and param.name != "wpe.weight":
            weights += prod(param.shape)
    attention = 12 * config.layers * config.width * config.length
    assert count_step_flops(case) == 4 * config.length * (6 * weights + attention)


@pytest.mark.parametrize("strategy", ["fp32", "checkpoint"])
def test_a_training_step_costs_three_forward_passes(strategy):
    """Model FLOPs: what checkpointing computes twice counts once."""
    evaluation = count_step_flops(make_case("resnet50/torch/eval/no_grad/b64"))
    training = count_step_flops(make_case(f"resnet50/torch/train/{strategy}/b64"))
    assert training == 3 * evaluation


def test_a_step_of_another_kind_has_no_count():
    assert count_step_flops(make_case("resnet50/torch/pair/together/b64")) is None
