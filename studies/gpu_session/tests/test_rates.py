"""Peak rates of GPUs, and the share of them that a step used."""

from __future__ import annotations

import pytest

from framebench.suite.selectors import parse
from studies.gpu_session.rates import peak_tflops, utilisation


@pytest.mark.parametrize(
    ("device", "precision", "peak"),
    [
        ("NVIDIA H200", "bf16", 989.5),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156),
        ("NVIDIA A100-SXM4-80GB", "fp32", 19.5),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("Tesla V100-SXM2-16GB", "tf32", None),
        ("NVIDIA L40S", "fp16", 362),
        ("NVIDIA L4", "fp16", 121),
        ("NVIDIA GeForce RTX 3090 Ti", "fp16", None),
        ("NVIDIA H200 NVL", "bf16", None),
        ("NVIDIA Future 1", "fp32", None),
        ("cpu", "fp32", None),
        (None, "fp32", None),
    ],
)
def test_peak_rates(device: str | None, precision: str, peak: float | None) -> None:
    assert peak_tflops(device, precision) == peak


def test_utilisation() -> None:
    one = parse("resnet50/torch/train/tf32/b64/full")
    assert utilisation(one, 0.02, "NVIDIA A100-SXM4-80GB") == pytest.approx(
        64 * 3 * 8.178e9 / 0.02 / 156e12, rel=1e-3
    )
    assert utilisation(one, 0.02, "unheard of") is None
    assert utilisation(one, None, "NVIDIA A100-SXM4-80GB") is None
