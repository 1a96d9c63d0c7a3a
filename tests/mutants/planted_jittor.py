"""Bugs planted in what Jittor computes. It has no reduced precision on a CPU."""

from __future__ import annotations

from tests.mutants.bug import Edit, bug

GPT, RESNET, UNET = (f"models/{name}/jittor_model.py" for name in ("transformer", "resnet50", "unet3d"))
ADAPTER, STEPS, SCENARIOS, CHECKPOINT = (
    f"framebench/adapters/jittor/{name}.py" for name in ("adapter", "steps", "scenarios", "checkpoint")
)
STATISTICS = "framebench/adapters/batch_norm.py"

MLP = "return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))"
NORM3 = "y = self.bn3(self.conv3(y))"
CAT = "jt.concat((self.upsample(x), skip), 1)"
ADAMW = "jt.optim.AdamW(params, o.lr, o.eps, o.betas, o.weight_decay)"
SGD = "jt.optim.SGD(params, o.lr, o.momentum, o.weight_decay)"
BATCH = "for x, y in self.cut_batch((inputs, targets), self.micro_batches):"
BACKWARD = "self.optimizer.backward(loss)"
COUNT = "self.optimizer.n_step = self.steps"
FREEZE = "if not name.startswith(prefixes):\n"
TANH = "0.5 * x * (1 + jt.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))"

TRAIN, EVAL = "transformer/jittor/train/fp32", "transformer/jittor/eval/no_grad"
RESNET_TRAIN, RESNET_EVAL = "resnet50/jittor/train/fp32", "resnet50/jittor/eval/no_grad"
UNET_TRAIN, UNET_EVAL = "unet3d/jittor/train/fp32", "unet3d/jittor/eval/no_grad"

MODELS = (
    bug("GELU by its tanh approximation", TRAIN, GPT, "= nn.gelu,", f"= lambda x: {TANH},"),
    bug("causal mask lets each token see the next one", EVAL, GPT, "scores.index(2) >= scores.index(3)", "scores.index(2) + 1 >= scores.index(3)"),
    bug("attention scaled by 1/d", EVAL, GPT, "q.shape[-1] ** -0.5", "q.shape[-1] ** -1.0"),
    bug("layer norm with eps 1e-6", EVAL, GPT, "self.ln_f = nn.LayerNorm(c.width)", "self.ln_f = nn.LayerNorm(c.width, 1e-6)"),
    bug("bias of a linear layer dropped in evaluation", EVAL, GPT, MLP, f"{MLP} - self.fc2.bias"),
    bug("branch detached", TRAIN, GPT, MLP, MLP.replace("self.ln2(x)", "self.ln2(x).detach()")),
    bug("padding counted in the loss", "transformer/jittor/varlen/padded", GPT, 'targets.reshape(-1), ignore_index=-1, reduction="sum")', 'targets.reshape(-1).maximum(0), reduction="sum")'),
    bug("batch norm with momentum 0.9", RESNET_TRAIN, RESNET, "self.bn3 = nn.BatchNorm2d(cout)", "self.bn3 = nn.BatchNorm2d(cout, momentum=0.9)"),
    bug("batch norm that ignores its running statistics in evaluation", RESNET_EVAL, RESNET, NORM3, "y = self.conv3(y)\n        y = y * self.bn3.weight.broadcast(y, [0, 2, 3]) + self.bn3.bias.broadcast(y, [0, 2, 3])"),
    bug("shift of a batch norm ignored in evaluation", RESNET_EVAL, RESNET, NORM3, f"{NORM3}\n        y = y - self.bn3.bias.broadcast(y, [0, 2, 3])"),
    bug("stride on the 1x1 convolution (v1, not v1.5)", RESNET_TRAIN, RESNET, "nn.Conv2d(cin, inner, 1, bias=False)\n        self.bn1 = nn.BatchNorm2d(inner)\n        self.conv2 = nn.Conv2d(inner, inner, 3, stride,", "nn.Conv2d(cin, inner, 1, stride, bias=False)\n        self.bn1 = nn.BatchNorm2d(inner)\n        self.conv2 = nn.Conv2d(inner, inner, 3, 1,"),
    bug("skip and upsampled volume in the wrong order", UNET_TRAIN, UNET, CAT, "jt.concat((skip, self.upsample(x)), 1)"),
    bug("bias of a rewritten transposed convolution dropped", "unet3d/jittor/train/rewrite", UNET, "return y + self.bias.broadcast(y, [0, 2, 3, 4])", "return y"),
    bug("rewritten convolution with its planes in reverse", "unet3d/jittor/train/rewrite", UNET, '+{k}-1", f"{k}"', '+{k}-1", f"{2 - k}"'),
    bug("instance norm with eps 1e-3", UNET_EVAL, UNET, "nn.InstanceNorm3d(cout, affine=True)", "nn.InstanceNorm3d(cout, 1e-3, affine=True)"),
)

OPTIMIZERS = (
    bug("AdamW without weight decay", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.weight_decay", "0")),
    bug("Adam's betas left at Jittor's defaults", TRAIN, ADAPTER, ADAMW, "jt.optim.AdamW(params, o.lr, o.eps, weight_decay=o.weight_decay)"),
    bug("weight decay 1e-4 in SGD", RESNET_TRAIN, ADAPTER, SGD, SGD.replace("o.weight_decay", "1e-4")),
    bug("Nesterov momentum", UNET_TRAIN, ADAPTER, SGD, "jt.optim.SGD(params, o.lr, o.momentum, o.weight_decay, nesterov=True)"),
    bug("adapters scaled by 2", "transformer/jittor/finetune/lora", GPT, "+ self.lora(x)", "+ 2 * self.lora(x)"),
    bug("loss in chunks against the targets of another one", "transformer/jittor/train/chunked_loss", STEPS, "embedding, y[i])", "embedding, y[(i + 1) % chunks])"),
    bug("loss in chunks gives the embedding no gradient", "transformer/jittor/train/chunked_loss", STEPS, "PartOfLoss(embedding, loss)", "PartOfLoss(embedding.detach().stop_grad(), loss)"),
    bug("bias correction by the number of backward passes", "transformer/jittor/train/accumulate", ADAPTER, COUNT, "self.uncounted = self.steps"),
)

STEP = (
    bug("loss not divided by the micro-batches", "transformer/jittor/train/accumulate", ADAPTER, "self.recipe.loss(x, y) / self.micro_batches", "self.recipe.loss(x, y)"),
    bug("accumulation that drops the first micro-batch", "transformer/jittor/train/accumulate", ADAPTER, BACKWARD, "self.optimizer.backward(loss if losses else 0 * loss)"),
    bug("half the batch once verified", TRAIN, ADAPTER, BATCH, f"{BATCH}\n            if self.steps >= 6:\n                x, y = x[::2], y[::2]"),
    bug("steps do nothing once verified", TRAIN, ADAPTER, "self.optimizer.step()\n", "if self.steps < 6:\n            self.optimizer.step()\n"),
    bug("checkpointing that updates the running statistics again when it recomputes", "resnet50/jittor/train/checkpoint", STATISTICS, "norm.momentum = 0.0", "pass"),
    bug("checkpointing that recomputes by the running statistics", "resnet50/jittor/train/checkpoint", STATISTICS, "norm.momentum = 0.0", "norm.is_train = False", Edit(STATISTICS, "norm.momentum = momentum", "norm.momentum, norm.is_train = momentum, True")),
    bug("checkpointing that gives a block's weights half their gradient", "transformer/jittor/train/checkpoint", CHECKPOINT, "return [g.stop_grad() for g in grads]", "return [(g if i < self.activations else g / 2).stop_grad() for i, g in enumerate(grads)]"),
)

OTHERS = (
    bug("frozen weights trained", "transformer/jittor/finetune/half", SCENARIOS, FREEZE, "if False:\n"),
    bug("teacher in training mode", "resnet50/jittor/train/distill", SCENARIOS, "teacher.eval()\n", "pass\n"),
    bug("batch norm by the batch in evaluation", RESNET_EVAL, ADAPTER, "module.is_train = False", "module.is_train = True"),
    bug("the same model twice", "resnet50/jittor/pair/together", SCENARIOS, "lambda: iter(models)", "lambda: iter([models[0], models[0]])"),
    bug("last batch of the stream left out", "transformer/jittor/varlen/raw", ADAPTER, "for x, y in self.stream:", "for x, y in self.stream[:-1]:"),
    bug("lean GELU's rule without its second term", "transformer/jittor/custom_op/lean", SCENARIOS, "return upstream * ((1 + jt.erf(x * ROOT_HALF)) / 2 + x * density)", "return upstream * (1 + jt.erf(x * ROOT_HALF)) / 2"),
    bug("mean of the images 0.5 grey values off", "resnet50/jittor/pipeline/iterator", "models/resnet50/spec.py", "np.float32(127.5)", "np.float32(127)"),
)

BUGS = (*MODELS, *OPTIMIZERS, *STEP, *OTHERS)
