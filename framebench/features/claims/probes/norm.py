"""What a 3-D batch norm adds to a step: `python -m framebench.features.claims.probes.norm torch|jittor`. Linux.

Forward and backward of four 3x3x3 convolutions with ReLU, with and without `nn.BatchNorm3d` between them: the peak of the step,
less what was alive before it, by the kernel's high-water mark.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from framebench.instruments.host import HostPeak

CHANNELS, EDGE, BATCH, LAYERS = 16, 32, 2, 4


def network(nn: Any, normalised: bool) -> Any:
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [nn.Conv3d(CHANNELS, CHANNELS, 3, padding=1)]
        layers += [nn.BatchNorm3d(CHANNELS)] * normalised + [nn.ReLU()]
    return nn.Sequential(*layers)


def _in_torch(normalised: bool, x: np.ndarray) -> Any:
    import torch

    model, inputs = network(torch.nn, normalised), torch.from_numpy(x)

    def step() -> None:
        model(inputs).square().mean().backward()
        model.zero_grad()

    return step


def _in_jittor(normalised: bool, x: np.ndarray) -> Any:
    import jittor as jt

    model, inputs = network(jt.nn, normalised), jt.array(x)

    def step() -> None:
        jt.sync(jt.grad((model(inputs) ** 2).mean(), model.parameters()))
        jt.sync_all(True)
        jt.clean()
        jt.gc()

    return step


def measure(framework: str) -> dict[str, int]:
    """Bytes that a step adds, plain and normalised: the second of two, when everything is compiled."""
    x = np.random.default_rng(0).standard_normal((BATCH, CHANNELS, EDGE, EDGE, EDGE), np.float32)
    bytes_by_name = {"input_bytes": x.nbytes}
    for name, normalised in (("plain", False), ("batch_norm", True)):
        step = {"torch": _in_torch, "jittor": _in_jittor}[framework](normalised, x)
        step()
        host = HostPeak()
        host.start()
        step()
        bytes_by_name[name] = host.grown()
    return bytes_by_name


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
