"""Batches, optimizers and training steps in the forms that people have them, as in `steps.py`."""

from __future__ import annotations

from tests.user_model.steps import USUAL, File

SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = torch.norm(torch.stack([
            p.grad.norm(p=2) for g in self.param_groups for p in g["params"]]), p=2)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * group["rho"] / (grad_norm + 1e-12))
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        assert closure is not None, "Sharpness Aware Minimization requires closure"
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()
"""
LOOKAHEAD = """
class Lookahead(torch.optim.Optimizer):
    def __init__(self, optimizer, k=2, alpha=0.5):
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.param_groups = optimizer.param_groups
        self.count = 0
        self.slow = [p.detach().clone() for g in self.param_groups for p in g["params"]]

    def step(self, closure=None):
        self.optimizer.step(closure)
        self.count += 1
        if self.count % self.k == 0:
            fast = [p for g in self.param_groups for p in g["params"]]
            for p, slow in zip(fast, self.slow):
                slow.add_(p.detach() - slow, alpha=self.alpha)
                p.data.copy_(slow)
"""
NOAM = """
class NoamOpt:
    def __init__(self, optimizer):
        self.optimizer, self._step = optimizer, 0

    def step(self):
        self._step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-3 * self._step ** -0.5
        self.optimizer.step()
"""
DETECTION = """
def batch(n):
    targets = []
    for i in range(n):
        targets.append({"boxes": torch.rand(3 + 7 * (i % 3), 4), "label": torch.tensor(i % 5)})
    return torch.randn(n, 16), targets

def loss(output, targets):
    total = 0.0
    for logits, target in zip(output, targets):
        total = total + F.cross_entropy(logits[None], target["label"][None])
        total = total + 0.1 * (target["boxes"].sum() * logits.mean()) ** 2
    return total / len(targets)
"""
GRAPHS = """
NODES = 6

class Graphs(Net):
    def forward(self, x, edge_index, batch):
        source, target = edge_index
        x = x + torch.zeros_like(x).index_add(0, target, x[source])
        graphs = int(batch.max()) + 1
        pooled = torch.zeros(graphs, 16, dtype=x.dtype).index_add(0, batch, x)
        return super().forward(pooled)

def model():
    return Graphs()

def batch(n):
    edges = torch.cat([torch.randint(NODES, (2, 20)) + i * NODES for i in range(n)], 1)
    owner = torch.arange(n).repeat_interleave(NODES)
    return {"x": torch.randn(n * NODES, 16), "edge_index": edges, "batch": owner}, \\
        torch.randint(5, (n,))
"""
SPLIT_GRAPHS = """
def split(batch, k):
    inputs, target = batch
    size = len(target) // k
    parts = []
    for first in range(0, len(target), size):
        mine = (inputs["batch"] >= first) & (inputs["batch"] < first + size)
        edges = mine[inputs["edge_index"][0]]
        part = {
            "x": inputs["x"][mine],
            "edge_index": inputs["edge_index"][:, edges] - first * NODES,
            "batch": inputs["batch"][mine] - first,
        }
        parts.append((part, target[first:first + size]))
    return parts
"""
FORMS = {
    "a list of targets, one for each image": File(DETECTION, USUAL),
    "images and targets in tuples, as a loader's zip gives them": File(
        """
        class Detector(Net):
            def forward(self, images, targets=None):
                images = torch.stack(list(images))
                logits = super().forward(images.mean((1, 2)))
                labels = torch.stack([target["label"] for target in targets])
                return {"loss": F.cross_entropy(logits, labels)}
        def model():
            return Detector()
        def batch(n):
            images = tuple(torch.randn(3, 4, 16) for _ in range(n))
            targets = tuple({"label": torch.tensor(i % 5)} for i in range(n))
            return (images, targets), None
        del loss
        """,
        USUAL,
    ),
    "images of several sizes in a list": File(
        """
        class Resizes(Net):
            def forward(self, images):
                return super().forward(torch.stack([image.mean(0) for image in images]))
        def model():
            return Resizes()
        def batch(n):
            return [torch.randn(3 + i, 16) for i in range(n)], torch.randint(5, (n,))
        """,
        USUAL,
    ),
    "graphs in one axis": File(GRAPHS, USUAL, left_out=("accumulate",)),
    "graphs in one axis, cut by the file": File(GRAPHS + SPLIT_GRAPHS, USUAL),
    "a graph as an object of its own": File(
        GRAPHS
        + """
class Data:
    def __init__(self, **arrays):
        self.__dict__.update(arrays)
    def to(self, device):
        return self
class Whole(Graphs):
    def forward(self, data):
        return super().forward(data.x, data.edge_index, data.batch)
def model():
    return Whole()
plain_batch = batch
def batch(n):
    inputs, target = plain_batch(n)
    return Data(**inputs, y=target), target
""",
        USUAL,
        left_out=("accumulate",),
    ),
    "packed sequences": File(
        """
        from torch.nn.utils.rnn import pack_sequence
        class Reads(Net):
            def __init__(self):
                super().__init__()
                self.reader = nn.GRU(16, 16, batch_first=True)
            def forward(self, packed):
                return super().forward(self.reader(packed)[1][0])
        def model():
            return Reads()
        def batch(n):
            lines = [torch.randn(3 + i, 16) for i in range(n)]
            return pack_sequence(lines, enforce_sorted=False), torch.randint(5, (n,))
        """,
        USUAL,
        left_out=("accumulate",),
    ),
    "sequences with offsets": File(
        """
        class Ragged(Net):
            def forward(self, tokens, offsets):
                parts = [tokens[a:b].mean(0) for a, b in zip(offsets, offsets[1:])]
                return super().forward(torch.stack(parts))
        def model():
            return Ragged()
        def batch(n):
            offsets = torch.cumsum(torch.tensor([0, *range(3, 3 + n)]), 0)
            return (torch.randn(int(offsets[-1]), 16), offsets), torch.randint(5, (n,))
        """,
        USUAL,
        left_out=("accumulate",),
    ),
    "a sparse adjacency among the inputs": File(
        """
        class Adjacent(Net):
            def forward(self, x, adjacency):
                return super().forward(x + torch.sparse.mm(adjacency, x))
        def model():
            return Adjacent()
        def batch(n):
            return (torch.randn(n, 16), torch.eye(n).to_sparse()), torch.randint(5, (n,))
        """,
        USUAL,
        left_out=("accumulate",),
    ),
    "a dataclass with a dictionary in it": File(
        """
        @dataclass(frozen=True)
        class Batch:
            features: dict
            labels: torch.Tensor
        class Takes(Net):
            def forward(self, batch):
                return super().forward(batch.features["x"]), batch.labels
        def model():
            return Takes()
        def batch(n):
            return Batch({"x": torch.randn(n, 16)}, torch.randint(5, (n,))), None
        def loss(output, target):
            return F.cross_entropy(*output)
        """,
        USUAL,
    ),
    "clipping in a hook of the optimizer": File(
        """
        def optimizer(parameters):
            made = torch.optim.Adam(parameters, lr=1e-3)
            def clip(*_):
                nn.utils.clip_grad_norm_(parameters, 0.01)
            made.register_step_pre_hook(clip)
            return made
        """,
        (*USUAL, "foreach", "fused_optimizer"),
        left_out=("optimizer_in_backward",),
    ),
    "SAM as it is published": File(
        SAM
        + """
def optimizer(parameters):
    return SAM(parameters, torch.optim.SGD, lr=0.1, momentum=0.9)
""",
        (*USUAL, "foreach", "amp_bf16"),
        left_out=("optimizer_in_backward",),
    ),
    "Lookahead around Adam": File(
        LOOKAHEAD
        + """
def optimizer(parameters):
    return Lookahead(torch.optim.Adam(parameters, lr=1e-2))
""",
        (*USUAL, "foreach", "fused_optimizer"),
        left_out=("optimizer_in_backward",),
    ),
    "a warm-up that is no optimizer and steps one": File(
        NOAM
        + """
def optimizer(parameters):
    return NoamOpt(torch.optim.Adam(parameters, lr=0.0, betas=(0.9, 0.98), eps=1e-9))
""",
        (*USUAL, "foreach"),
        left_out=("optimizer_in_backward",),
    ),
    "an average of weights that a hook keeps": File(
        """
        def optimizer(parameters):
            made = torch.optim.AdamW(parameters, lr=1e-3)
            made.mean = [p.detach().clone() for p in parameters]
            def follow(optimizer, args, kwargs):
                torch._foreach_lerp_(made.mean, [p.detach() for p in parameters], 0.1)
            made.register_step_post_hook(follow)
            return made
        """,
        (*USUAL, "foreach"),
        left_out=("optimizer_in_backward",),
    ),
    "a training step that clips and follows its schedule": File(
        """
        def optimizer(parameters):
            made = torch.optim.AdamW(parameters, lr=1e-3)
            return made, torch.optim.lr_scheduler.LambdaLR(made, lambda step: 1 / (1 + step))
        def step(model, batch, optimizer):
            (made, schedule), (x, y) = optimizer, batch
            made.zero_grad()
            value = F.cross_entropy(model(x), y)
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            made.step()
            schedule.step()
            return value
        """,
        ("checkpoint", "foreach", "accumulate", "amp_bf16"),
        left_out=("accumulate", "amp_bf16"),
    ),
    "a generator and its critic, one after the other": File(
        """
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.generator, self.critic = Net(), Net()
        def model():
            return Pair()
        def optimizer(parameters):
            half = len(parameters) // 2
            return {"generator": torch.optim.Adam(parameters[:half], 1e-3),
                    "critic": torch.optim.Adam(parameters[half:], 1e-3)}
        def step(model, batch, optimizer):
            x, y = batch
            optimizer["critic"].zero_grad()
            fake = torch.cat([model.generator(x).detach(), x[:, 5:]], 1)
            critic_loss = model.critic(fake).mean() - model.critic(x).mean()
            critic_loss.backward()
            optimizer["critic"].step()
            optimizer["generator"].zero_grad()
            fake = torch.cat([model.generator(x), x[:, 5:]], 1)
            loss = -model.critic(fake).square().mean()
            loss.backward()
            optimizer["generator"].step()
            return {"loss": loss.item(), "critic": critic_loss.item()}
        del loss
        """,
        ("checkpoint", "foreach", "keep_grads"),
        left_out=("keep_grads",),
    ),
}
