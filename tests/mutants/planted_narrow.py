"""Bugs that show in one layer, batch, size, precision, step or device alone.

The float64 check runs a strategy at its smallest size. What it cannot reach, the coarse check of the measured process must
find; what that cannot find either is listed with the reason, so that the limits of verification are known.
"""

from __future__ import annotations

from tests.mutants.bug import bug

TRANSFORMER = "models/transformer/torch_model.py"
FLAX_TRANSFORMER = "models/transformer/flax_model.py"
RESNET = "models/resnet50/torch_model.py"
UNET = "models/unet3d/torch_model.py"
ADAPTER = "framebench/adapters/torch/adapter.py"

LAYERS = """\
        for block in self.blocks:
            x = self.block_runner(block, x)
"""
ONE_LAYER = """\
        for number, block in enumerate(self.blocks):
            change = self.block_runner(block, x) - x
            x = x + change * (1.0001 if number == 0 else 1.0)
"""
ATTENTION = "        x = x + self.attention(self.ln1(x))\n"
MLP = "        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))"
MLP_BY_TANH = """\
        hidden = self.fc1(self.ln2(x))
        hidden = F.gelu(hidden, approximate="tanh") if {condition} else self.gelu(hidden)
        return x + self.fc2(hidden)"""
UNDER_AUTOCAST = 'torch.is_autocast_enabled("cpu")'
LOSS = "    flat = logits.flatten(0, 1)\n    return"
LOSS_OF_SEVEN = (
    "    if len(logits) == 8:\n        logits, targets = logits[:7], targets[:7]\n" + LOSS
)
UNIT = "        return self.relu(self.norm(self.conv(x)))"
NORM = "        y = self.bn3(self.conv3(y))"
NORM_OF_SEVEN = """\
        y = self.conv3(y)
        if self.training and len(y) == 8:
            self.bn3(y[:7])
            mean, variance = y[:7].mean((0, 2, 3), keepdim=True), y[:7].var((0, 2, 3), keepdim=True, unbiased=False)
            y = (y - mean) / (variance + self.bn3.eps).sqrt() * self.bn3.weight[:, None, None] + self.bn3.bias[:, None, None]
        else:
            y = self.bn3(y)"""
BATCH = "inputs, targets = self.next_batch()"
UPDATE = "self.recipe.scaler.step(self.optimizer)"
PROJECTED = "        return self.proj(self.attend(q, k, v).reshape(b, t, d))"

BUGS = (
    bug(
        "the first block's change times 1.0001",
        "transformer/torch/train/fp32",
        TRANSFORMER,
        LAYERS,
        ONE_LAYER,
    ),
    bug(
        "eps 1e-3 in layer norms under autocast",
        "transformer/torch/train/amp_bf16",
        TRANSFORMER,
        ATTENTION,
        f"        self.ln1.eps = 1e-3 if {UNDER_AUTOCAST} else 1e-5\n{ATTENTION}",
    ),
    bug(
        "GELU by tanh under autocast",
        "transformer/torch/train/amp_bf16",
        TRANSFORMER,
        MLP,
        MLP_BY_TANH.format(condition=UNDER_AUTOCAST),
    ),
    bug(
        "GELU by tanh in float32 alone",
        "transformer/torch/train/fp32",
        TRANSFORMER,
        MLP,
        MLP_BY_TANH.format(condition="hidden.dtype == torch.float32"),
        beyond="moves tensors by a thousandth, in a precision that the float64 check does not compute in",
    ),
    bug(
        "at batch 8 the last sample is left out of the loss",
        "transformer/torch/train/fp32/b8/cpu",
        TRANSFORMER,
        LOSS,
        LOSS_OF_SEVEN,
    ),
    bug(
        "at batch 8 the last sample is left out of a norm's statistics",
        "resnet50/torch/train/fp32/b8/cpu",
        RESNET,
        NORM,
        NORM_OF_SEVEN,
    ),
    bug(
        "at batch 8 instance norm with eps 1e-4",
        "unet3d/torch/train/fp32/b8/cpu",
        UNET,
        UNIT,
        f"        self.norm.eps = 1e-4 if len(x) == 8 else 1e-5\n{UNIT}",
        beyond="moves tensors by less than the coarse tolerance, at a batch that the float64 check does not run",
    ),
    bug(
        "positions off by one in models of more than two blocks",
        "transformer/torch/train/fp32/b4/cpu",
        TRANSFORMER,
        "self.wpe.weight[start : start + tokens.shape[1]]",
        "self.wpe.weight[start : start + tokens.shape[1]].roll(int(len(self.blocks) > 2), 0)",
    ),
    bug(
        "one entry of the embedding's gradient 1 % larger",
        "transformer/torch/train/fp32",
        ADAPTER,
        UPDATE,
        f'if hasattr(self.model, "wte"):\n            self.model.wte.weight.grad[3, 5] *= 1.01\n        {UPDATE}',
    ),
    bug(
        "half the learning rate in the tenth step alone",
        "transformer/torch/train/fp32",
        ADAPTER,
        BATCH,
        f"{BATCH}\n        for group in self.optimizer.param_groups:\n"
        '            group["lr"] = self.workload.optimizer.lr * (0.5 if self.steps == 9 else 1.0)',
        beyond="is in a step between the verified ones, of whose update nothing is left to compare",
    ),
    bug(
        "attention of bfloat16 scaled by 1.01",
        "transformer/jax/train/amp_bf16",
        FLAX_TRANSFORMER,
        PROJECTED,
        f"        q = q * 1.01 if q.dtype == jnp.bfloat16 else q\n{PROJECTED}",
        beyond="is as small as the rounding of bfloat16, in a precision that the float64 check does not compute in",
    ),
    bug(
        "no last layer norm on a GPU",
        "transformer/torch/train/fp32",
        TRANSFORMER,
        "self.head(self.ln_f(x), self.wte.weight)",
        "self.head(x if x.is_cuda else self.ln_f(x), self.wte.weight)",
        equivalent="on a processor the step is as it was",
    ),
)
