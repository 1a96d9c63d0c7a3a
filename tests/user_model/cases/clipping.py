"""A PPO minibatch whose gradients are clipped in a hook of the optimizer
(https://github.com/ray-project/ray/issues/7238).
"""

import torch
from torch import nn
from torch.distributions import Normal

ACTIONS = 6


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(5184, 512),
            nn.ReLU(),
        )
        self.mean, self.value = nn.Linear(512, ACTIONS), nn.Linear(512, 1)
        self.log_std = nn.Parameter(torch.zeros(ACTIONS))

    def forward(self, pixels):
        hidden = self.features(pixels / 255.0)
        return Normal(self.mean(hidden), self.log_std.exp()), self.value(hidden).squeeze(-1)


def model():
    return ActorCritic()


def batch(n):
    target = {
        "action": torch.randn(n, ACTIONS),
        "log_prob": torch.randn(n) - 8,
        "advantage": torch.randn(n),
        "returns": torch.randn(n),
    }
    return torch.randint(256, (n, 4, 84, 84)).float(), target


def loss(output, target):
    policy, value = output
    ratio = (policy.log_prob(target["action"]).sum(-1) - target["log_prob"]).exp()
    clipped = ratio.clamp(0.8, 1.2)
    gain = torch.min(ratio * target["advantage"], clipped * target["advantage"]).mean()
    return (value - target["returns"]).square().mean() - gain


def optimizer(parameters):
    made = torch.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)

    def clip(*_):
        nn.utils.clip_grad_norm_(parameters, 0.5)

    made.register_step_pre_hook(clip)
    return made
