import torch

from models import Absent


def model() -> torch.nn.Module:
    return Absent()


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 32), torch.randn(n, 32)


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean()
