import spec
import torch
import worker

import analysis
import benchmarks
from models import Net

assert (analysis.SCORE, benchmarks.NAME, worker.STEPS) == ("mean squared error", "ours", 1)


def model() -> torch.nn.Module:
    return Net()


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, spec.SIZE), torch.randn(n, spec.SIZE)


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean()
