"""ResNet-50 v1.5 in Jittor. Parameter names and layouts are the canonical ones.

Jittor's batch norm keeps the biased variance as its running variance where PyTorch keeps the unbiased one; eps (1e-5) and
the momentum of new statistics (0.1) are the same. Verification knows it (`biased_variance` of the adapter).
"""

from __future__ import annotations

from jittor import Module, Var, nn

from framebench.models.resnet50.spec import Config, blocks


class Bottleneck(Module):
    def __init__(self, cin: int, inner: int, cout: int, stride: int, groups: int) -> None:
        self.conv1 = nn.Conv2d(cin, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def execute(self, x: Var) -> Var:  # (batch, cin, h, w) -> (batch, cout, h / stride, w / stride)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = nn.relu(self.bn1(self.conv1(x)))
        y = nn.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return nn.relu(y + shortcut)


class ResNet(Module):
    def __init__(self, c: Config) -> None:
        self.conv1 = nn.Conv2d(3, c.width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(c.width)
        self.stages = [f"layer{i + 1}" for i in range(len(c.depths))]
        for stage in self.stages:
            rows = [row for row in blocks(c) if row[0].startswith(stage)]
            setattr(self, stage, nn.Sequential(*(Bottleneck(i, n, n * c.expansion, s, c.groups_of(n)) for _, i, n, s in rows)))
        self.fc = nn.Linear(c.width * 2 ** (len(c.depths) - 1) * c.expansion, c.classes)
        self.remat = lambda block, x: block(x)  # how a block is run: checkpointing replaces this

    def execute(self, x: Var) -> Var:  # (batch, 3, image, image) -> (batch, classes)
        x = nn.relu(self.bn1(self.conv1(x)))
        x = nn.max_pool2d(x, 3, 2, padding=1)
        for stage in self.stages:
            for block in getattr(self, stage):
                x = self.remat(block, x)
        return self.fc(x.mean((2, 3)))


def build(c: Config) -> Module:
    return ResNet(c)


def blocks_of(model: Module) -> list[Module]:
    """The units of checkpointing."""
    return [m for m in model.modules() if isinstance(m, Bottleneck)]


def loss(logits: Var, labels: Var) -> Var:
    """Mean cross entropy."""
    return nn.cross_entropy_loss(logits, labels)
