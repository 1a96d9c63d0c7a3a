"""What a 3-D batch norm adds to a step: `python -m framebench.features.claims.probes.norm torch|jittor`. Linux.

Forward and backward of four 3x3x3 convolutions with ReLU, with and without `nn.BatchNorm3d` between them: the peak of the step,
less what was alive before it, by the kernel's high-water mark.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from framebench import extensions
from framebench.instruments.host import HostPeak

LAYERS, BATCH, CHANNELS, EDGE = 4, 2, 16, 32


def network(nn: Any, normalised: bool) -> Any:
    """By the framework's `nn`, for (batch, channels, depth, height, width)."""
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [nn.Conv3d(CHANNELS, CHANNELS, 3, padding=1)]
        layers += [nn.BatchNorm3d(CHANNELS)] * normalised + [nn.ReLU()]
    return nn.Sequential(*layers)


def measure(framework: str) -> dict[str, int]:
    """Bytes that a step adds, plain and normalised: the second of two, when everything is compiled."""
    x = np.random.default_rng(0).standard_normal((BATCH, CHANNELS, EDGE, EDGE, EDGE), np.float32)
    of_framework = extensions.of_framework("claims", "norm", framework)
    bytes_by_name = {"input_bytes": x.nbytes}
    for name, normalised in (("plain", False), ("batch_norm", True)):
        step = of_framework.step(network(of_framework.nn, normalised), x)
        step()
        host = HostPeak()
        host.start()
        step()
        bytes_by_name[name] = host.grown()
    return bytes_by_name


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
