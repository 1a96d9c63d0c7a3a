"""Files with a step as people have it, and what is right of each."""

from __future__ import annotations

from dataclasses import dataclass

BEGINNING = """
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.off = 0.0

    def forward(self, x):
        return x + self.down(F.dropout(self.up(x).tanh(), self.off, self.training))

class Net(nn.Module):
    def __init__(self, off=0.0):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block() for _ in range(3)]), nn.Linear(16, 5)
        for block in self.blocks:
            block.off = off

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def model():
    return Net()

def batch(n):
    return torch.randn(n, 16), torch.randint(5, (n,))

def loss(output, target):
    return F.cross_entropy(output, target)
"""


@dataclass(frozen=True)
class File:
    more: str
    strategies: tuple[str, ...]
    scenario: str = "train"
    left_out: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    still: tuple[str, ...] = ()  # verified without random numbers
    moves: bool = True  # whether each step's loss is another one


USUAL = ("checkpoint", "accumulate", "optimizer_in_backward")
KEYWORDS = """
    @dataclass
    class Output:
        loss: torch.Tensor
        logits: torch.Tensor
        cache: tuple = ()
    class Keywords(Net):
        def forward(self, features=None, labels=None, scale=None, mask=None):
            logits = super().forward(features) * scale[:, None] + mask.sum() * 0
            return Output(F.cross_entropy(logits, labels), logits)
    def model():
        return Keywords()
    def batch(n):
        return {"features": torch.randn(n, 16), "labels": torch.randint(5, (n,)),
                "scale": torch.ones(n), "mask": torch.ones(7, 7)}
    del loss
"""
RANDOM = """
    def model():
        return Net(off=0.2)
"""
FILES = {
    "two inputs, and a description beside the weights": File(
        """
        class Two(Net):
            def state_dict(self, *args, **named):
                return super().state_dict(*args, **named) | {"_metadata": {"width": 16}}
            def forward(self, x, t):
                return super().forward(x + t[:, None])
        def model():
            return Two()
        def batch(n):
            return (torch.randn(n, 16), torch.randint(9, (n,))), torch.randint(5, (n,))
        """,
        USUAL,
    ),
    "keywords, with the loss in what comes out": File(KEYWORDS, USUAL),
    "keywords, evaluated": File(KEYWORDS, ("grad", "inference_mode", "amp_bf16"), "eval"),
    "several outputs": File(
        """
        class Two(Net):
            def forward(self, x):
                y = super().forward(x)
                return {"logits": y, "square": (y * y).sum(1)}
        def model():
            return Two()
        def loss(output, target):
            return F.cross_entropy(output["logits"], target) + 0.01 * output["square"].mean()
        """,
        USUAL,
    ),
    "an activation that changes a product in place": File(
        """
        def forward(self, x):
            return x + self.down(F.silu(self.up(x), inplace=True))
        Block.forward = forward
        """,
        ("checkpoint", "checkpoint_dots"),
        left_out=("checkpoint_dots",),
    ),
    "a cache of keys, which a second run would fill again": File(
        """
        class Cache:
            def __init__(self):
                self.keys = []
            def get_seq_length(self):
                return len(self.keys)
            def update(self, keys):
                self.keys.append(keys)
                return torch.cat(self.keys, 1)
        class Attends(nn.Module):
            def __init__(self):
                super().__init__()
                self.query, self.key, self.out = (nn.Linear(16, 16) for _ in range(3))
            def forward(self, x, cache, use_cache=False):
                keys = self.key(x)
                keys = keys if cache is None else cache.update(keys)
                return x + self.out((self.query(x) @ keys.transpose(1, 2)).softmax(-1) @ keys)
        class Cached(Net):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Attends() for _ in range(3)])
            def forward(self, x):
                for number, block in enumerate(self.blocks):
                    if number == 0:
                        x = block(x, Cache(), True)
                    else:
                        x = block(x, cache=Cache(), use_cache=True)
                return self.head(x[:, 0])
        def model():
            return Cached()
        def batch(n):
            return torch.randn(n, 6, 16), torch.randint(5, (n,))
        """,
        ("checkpoint", "checkpoint_dots", "checkpoint_linear"),
    ),
    "sparse gradients": File(
        """
        class Table(Net):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(50, 16, sparse=True)
            def forward(self, x):
                return super().forward(self.table(x))
        def model():
            return Table()
        def batch(n):
            return torch.randint(50, (n,)), torch.randint(5, (n,))
        def optimizer(parameters):
            return torch.optim.SGD(parameters, lr=0.1)
        """,
        (*USUAL, "keep_grads", "foreach", "fused_optimizer"),
        left_out=("foreach", "fused_optimizer"),
    ),
    "complex weights": File(
        """
        class Spectral(Block):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(9, dtype=torch.cfloat))
            def forward(self, x):
                return super().forward(x) + torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=16)
        class Operator(Net):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Spectral() for _ in range(3)])
        def model():
            return Operator()
        def optimizer(parameters):
            return torch.optim.Adam(parameters, lr=1e-3)
        """,
        (*USUAL, "fused_optimizer"),
        left_out=("fused_optimizer",),
    ),
    "a rate that begins at 0": File(
        """
        def optimizer(parameters):
            made = torch.optim.AdamW(parameters, lr=1e-3)
            torch.optim.lr_scheduler.LambdaLR(made, lambda step: step / 1000)
            return made
        """,
        (*USUAL, "foreach"),
    ),
    "an optimizer beside its schedule": File(
        """
        def optimizer(parameters):
            made = torch.optim.AdamW(parameters, lr=1e-3)
            return made, torch.optim.lr_scheduler.OneCycleLR(made, 1e-3, total_steps=100)
        """,
        USUAL,
    ),
    "one cycle, which begins at almost nothing": File(
        """
        def optimizer(parameters):
            made = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                made, 0.1, total_steps=1000, div_factor=1e9
            )
            return made, schedule
        """,
        USUAL,
        moves=True,
    ),
    "a rate that float32 hardly shows": File(
        """
        def optimizer(parameters):
            return torch.optim.SGD(parameters, lr=1e-11, momentum=0.9)
        """,
        USUAL,
        unproven=("optimizer_in_backward",),  # some weights stay what they are
        moves=False,
    ),
    "two optimizers, each with its weights by their place": File(
        """
        def optimizer(parameters):
            adam = torch.optim.Adam(parameters[:5], lr=1e-2)
            return [adam, torch.optim.SGD(parameters[5:], lr=1e-3, momentum=0.9)]
        """,
        (*USUAL, "foreach"),
    ),
    "groups with rates by their place": File(
        """
        def optimizer(parameters):
            fast = {"params": parameters[:5], "lr": 1e-2}
            slow = {"params": parameters[5:], "lr": 1e-4}
            return torch.optim.AdamW([fast, slow])
        """,
        USUAL,
    ),
    "gradients that are clipped in the step": File(
        """
        class Clipped(torch.optim.AdamW):
            def step(self, closure=None):
                every = [p for group in self.param_groups for p in group["params"]]
                nn.utils.clip_grad_norm_(every, 0.01)
                return super().step(closure)
        def optimizer(parameters):
            return Clipped(parameters, lr=1e-3)
        """,
        ("checkpoint", "accumulate"),
    ),
    "a closure": File(
        """
        def optimizer(parameters):
            return torch.optim.LBFGS(parameters, lr=0.1, max_iter=3)
        """,
        (*USUAL, "keep_grads", "amp_bf16"),
        left_out=("optimizer_in_backward", "amp_bf16"),
    ),
    "weights that are parametrized": File(
        """
        from torch.nn.utils.parametrizations import spectral_norm, weight_norm
        class Normed(Net):
            def __init__(self):
                super().__init__()
                for block in self.blocks:
                    weight_norm(block.up)
                spectral_norm(self.head)
        def model():
            return Normed()
        """,
        ("checkpoint", "accumulate"),
        left_out=("accumulate",),
    ),
    "blocks with a state that each pass changes": File(
        """
        class Normed(Net):
            def __init__(self):
                super().__init__()
                for block in self.blocks:
                    nn.utils.spectral_norm(block.up)
        def model():
            return Normed()
        """,
        ("checkpoint", "accumulate", "keep_grads"),
        left_out=("checkpoint", "accumulate"),
    ),
    "an average of the weights that follows them": File(
        """
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
        class Teacher(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Net()
                self.mean = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
                self.mean.requires_grad_(False)
            def forward(self, x):
                if self.training:
                    self.mean.update_parameters(self.net)
                with torch.no_grad():
                    wanted = self.mean(x).softmax(1)
                return self.net(x), wanted
        def model():
            return Teacher()
        def loss(output, target):
            return F.cross_entropy(output[0], target) + F.cross_entropy(output[0], output[1])
        """,
        ("checkpoint", "accumulate", "optimizer_in_backward"),
        left_out=("accumulate",),
    ),
    "autocast in the model": File(
        """
        class Cast(Net):
            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return super().forward(x).float()
        def model():
            return Cast()
        """,
        (*USUAL, "amp_bf16", "foreach"),
    ),
    "a loss with what is logged": File(
        """
        def loss(output, target):
            value = F.cross_entropy(output, target)
            return value, {"loss": value.item()}
        """,
        ("accumulate",),
    ),
    "a gradient in the loss": File(
        """
        class Forced(Net):
            def forward(self, x):
                x = x.detach().requires_grad_()
                energy = super().forward(x)
                (force,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
                return energy, force
        def model():
            return Forced()
        def loss(output, target):
            return F.cross_entropy(output[0], target) + output[1].square().mean()
        """,
        (*USUAL, "amp_bf16"),
    ),
    "a model that its file compiles": File(
        """
        def model():
            net = Net()
            net.blocks[0].compile()
            return torch.compile(net)
        """,
        USUAL,
    ),
    "dropout": File(RANDOM, (*USUAL, "foreach"), still=("accumulate",)),
    "samples that are drawn": File(
        """
        class Sampled(Net):
            def forward(self, x):
                noise = 0.3 * torch.randn_like(x)
                return super().forward(x + noise + torch.bernoulli(torch.full_like(x, 0.5)))
        def model():
            return Sampled(off=0.1)
        """,
        USUAL,
        still=("accumulate",),
    ),
}
