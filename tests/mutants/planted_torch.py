"""Bugs planted in what PyTorch computes."""

from __future__ import annotations

from tests.mutants.bug import Edit, bug

GPT, RESNET, UNET = (f"models/{name}/torch_model.py" for name in ("transformer", "resnet50", "unet3d"))
ADAPTER, CHECKPOINT, STEPS, MEMORY, SCENARIOS = (
    f"framebench/adapters/torch/{name}.py" for name in ("adapter", "checkpoint", "steps", "memory", "scenarios")
)

FUSED = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
MLP = "return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))"
ATTENTION = "x = x + self.attention(self.ln1(x))"
HEAD = "self.head(self.ln_f(x), self.wte.weight)"
NORM3 = "y = self.bn3(self.conv3(y))"
FACTORED, WHOLE = (f"transformer/torch/train/{name}" for name in ("adafactor", "compile_step"))
ADAMW = "torch.optim.AdamW(params, o.lr, o.betas, o.eps, o.weight_decay, **options)"
ADAFACTOR = "torch.optim.Adafactor(params, o.lr, eps=eps, weight_decay=o.weight_decay, **options)"
SGD = "torch.optim.SGD(params, o.lr, o.momentum, weight_decay=o.weight_decay, **options)"
CHUNKED, CHUNKS = "transformer/torch/train/chunked_loss", "parts = zip(hidden.flatten(0, 1).chunk(chunks), y.flatten().chunk(chunks))"
UPDATE = "self.recipe.scaler.step(self.optimizer)"
BATCH = "inputs, targets = self.next_batch()"
BACKWARD = "self.recipe.backward(loss)"
CAT = "torch.cat((self.upsample(x), skip), 1)"
RECOMPUTE = "return recompute(block, *drop_cache(xs), use_reentrant=False, **options"
IN_BACKWARD = "(torch._C._current_graph_task_id() != -1)"  # whether a backward pass is running

TRAIN, EVAL, HALF = (f"transformer/torch/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))
RESNET_TRAIN, RESNET_EVAL, RESNET_HALF = (f"resnet50/torch/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))
UNET_TRAIN, UNET_EVAL, UNET_HALF = (f"unet3d/torch/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))

MODELS = (
    bug("GELU by its tanh approximation", TRAIN, GPT, "= F.gelu,", '= lambda x: F.gelu(x, approximate="tanh"),'),
    bug("GELU by its tanh approximation, in evaluation", EVAL, GPT, "= F.gelu,", '= lambda x: F.gelu(x, approximate="tanh"),'),
    bug("attention scaled by 1/d", EVAL, GPT, FUSED, FUSED[:-1] + ", scale=1 / q.shape[-1])"),
    bug("attention scaled by 1/d, in bfloat16", HALF, GPT, FUSED, FUSED[:-1] + ", scale=1 / q.shape[-1])"),
    bug("causal mask dropped, in bfloat16", HALF, GPT, FUSED, FUSED.replace("True", "False")),
    bug("causal mask dropped, in evaluation in bfloat16", "transformer/torch/eval/bf16", GPT, FUSED, FUSED.replace("True", "False")),
    bug(
        "causal mask lets each token see the next one",
        "transformer/torch/train/attention_plain",
        GPT,
        "device=q.device).triu(1)",
        "device=q.device).triu(2)",
    ),
    bug(
        "bias of a linear layer dropped in evaluation",
        EVAL,
        GPT,
        MLP,
        "return x + F.linear(self.gelu(self.fc1(self.ln2(x))), self.fc2.weight)",
    ),
    bug("layer norm with eps 1e-6", EVAL, GPT, "self.ln_f = nn.LayerNorm(c.width)", "self.ln_f = nn.LayerNorm(c.width, eps=1e-6)"),
    bug("layer norm without its shift", EVAL, GPT, HEAD, "self.head(self.ln_f(x) - self.ln_f.bias, self.wte.weight)"),
    bug("layer norm without its weight", EVAL, GPT, "self.attention(self.ln1(x))", "self.attention(F.layer_norm(x, x.shape[-1:]) + self.ln1.bias)"),
    bug("residual around the attention dropped", TRAIN, GPT, ATTENTION, "x = self.attention(self.ln1(x))"),
    bug("residual around the attention dropped, in bfloat16", HALF, GPT, ATTENTION, "x = self.attention(self.ln1(x))"),
    bug("attention not normalised before (no ln1)", TRAIN, GPT, ATTENTION, "x = x + self.attention(x)"),
    bug("positions shifted by one", EVAL, GPT, "self.wpe.weight[start :", "self.wpe.weight.roll(1, 0)[start :"),
    bug("head not tied: it gives the embedding no gradient", TRAIN, GPT, HEAD, "self.head(self.ln_f(x), self.wte.weight.detach())"),
    bug("last norm left out", EVAL, GPT, HEAD, "self.head(x, self.wte.weight)"),
    bug("branch detached", TRAIN, GPT, MLP, MLP.replace("self.ln2(x)", "self.ln2(x).detach()")),
    bug("branch detached, in bfloat16", HALF, GPT, MLP, MLP.replace("self.ln2(x)", "self.ln2(x).detach()")),
    bug("queries and keys swapped", TRAIN, GPT, "q, k, v = qkv.unbind(0)", "k, q, v = qkv.unbind(0)"),
    bug(
        "queries, keys and values of each head side by side in the weight",
        TRAIN,
        GPT,
        ".view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)",
        ".view(b, t, self.heads, 3, d // self.heads).permute(3, 0, 2, 1, 4)",
    ),
    bug("targets shifted by one token", TRAIN, GPT, "flat.float(), targets.flatten())", "flat.float(), targets.roll(1, 1).flatten())"),
    bug("labels smoothed by 0.001", TRAIN, GPT, "flat.float(), targets.flatten())", "flat.float(), targets.flatten(), label_smoothing=1e-3)"),
    bug("loss summed, not averaged", TRAIN, GPT, "flat.float(), targets.flatten())", 'flat.float(), targets.flatten(), reduction="sum")'),
    bug("dropout left on", TRAIN, GPT, "self.gelu(self.fc1(self.ln2(x)))", "F.dropout(self.gelu(self.fc1(self.ln2(x))), 0.1)"),
    bug(
        "gradient of one weight zeroed",
        TRAIN,
        GPT,
        "self.fc2 = nn.Linear(4 * c.width, c.width)",
        "self.fc2 = nn.Linear(4 * c.width, c.width)\n        self.ln2.weight.register_hook(lambda g: 0 * g)",
    ),
    bug(
        "bias of the keys left out",
        EVAL,
        GPT,
        "q, k, v = qkv.unbind(0)",
        "q, k, v = qkv.unbind(0)\n        k = k - self.qkv.bias[d : 2 * d].view(self.heads, 1, -1)",
        equivalent="it adds the same number, the query's product with it, to all scores of a query, and softmax forgets that",
    ),
    bug("last ReLU of a block left out", RESNET_TRAIN, RESNET, "return self.relu(y + shortcut)", "return y + shortcut"),
    bug("ReLU leaks 1 %", RESNET_EVAL, RESNET, "return self.relu(y + shortcut)", "return F.leaky_relu(y + shortcut, 0.01)"),
    bug("shortcut without its batch norm", RESNET_TRAIN, RESNET, "else self.downsample(x)", "else self.downsample[0](x)"),
    bug("residual dropped", RESNET_EVAL, RESNET, "return self.relu(y + shortcut)", "return self.relu(y)"),
    bug(
        "stride on the 1x1 convolution (v1, not v1.5)",
        RESNET_TRAIN,
        RESNET,
        "self.conv1 = nn.Conv2d(cin, inner, 1, bias=False)\n        self.bn1 = nn.BatchNorm2d(inner)\n"
        "        self.conv2 = nn.Conv2d(inner, inner, 3, stride,",
        "self.conv1 = nn.Conv2d(cin, inner, 1, stride, bias=False)\n        self.bn1 = nn.BatchNorm2d(inner)\n"
        "        self.conv2 = nn.Conv2d(inner, inner, 3, 1,",
    ),
    bug("max pool over 2x2, not 3x3", RESNET_TRAIN, RESNET, "F.max_pool2d(x, 3, 2, padding=1)", "F.max_pool2d(x, 2, 2)"),
    bug("average pool for max pool", RESNET_EVAL, RESNET, "F.max_pool2d(x, 3, 2, padding=1)", "F.avg_pool2d(x, 3, 2, padding=1)"),
    bug("padding that repeats the edge", RESNET_EVAL, RESNET, "2, padding=3, bias=False)", '2, padding=3, bias=False, padding_mode="replicate")'),
    bug("batch norm with eps 1e-3", RESNET_TRAIN, RESNET, "self.bn3 = nn.BatchNorm2d(cout)", "self.bn3 = nn.BatchNorm2d(cout, eps=1e-3)"),
    bug("batch norm with eps 1e-4", RESNET_TRAIN, RESNET, "self.bn3 = nn.BatchNorm2d(cout)", "self.bn3 = nn.BatchNorm2d(cout, eps=1e-4)"),
    bug("batch norm with momentum 0.9", RESNET_TRAIN, RESNET, "self.bn3 = nn.BatchNorm2d(cout)", "self.bn3 = nn.BatchNorm2d(cout, momentum=0.9)"),
    bug("running statistics never updated", RESNET_TRAIN, RESNET, "self.bn3 = nn.BatchNorm2d(cout)", "self.bn3 = nn.BatchNorm2d(cout, momentum=0.0)"),
    bug(
        "running variance of the biased kind",
        RESNET_TRAIN,
        RESNET,
        NORM3,
        "before, n = self.bn3.running_var.clone(), y[:, 0].numel()\n        "
        f"{NORM3}\n        now = self.bn3.running_var\n        self.bn3.running_var = now - (now - 0.9 * before) / n",
    ),
    bug(
        "batch norm that ignores its running statistics in evaluation",
        RESNET_EVAL,
        RESNET,
        NORM3,
        "y = self.conv3(y) * self.bn3.weight[:, None, None] + self.bn3.bias[:, None, None]",
    ),
    bug("batch norm by the batch in evaluation", RESNET_EVAL, ADAPTER, ".train(not self.recipe.evaluates)", ".train()"),
    bug(
        "batch norm that ignores its running mean in evaluation in bfloat16",
        "resnet50/torch/eval/bf16",
        RESNET,
        NORM3,
        "y = self.bn3(self.conv3(y) + self.bn3.running_mean[:, None, None])",
    ),
    bug("shift of a batch norm ignored in evaluation", RESNET_EVAL, RESNET, NORM3, NORM3 + " - self.bn3.bias[:, None, None]"),
    bug(
        "gradient of the inner batch norms' weights zeroed",
        RESNET_TRAIN,
        RESNET,
        "self.relu = nn.ReLU(inplace=True)",
        "self.relu = nn.ReLU(inplace=True)\n        self.bn2.weight.register_hook(lambda g: 0 * g)",
    ),
    bug(
        "weight of a batch norm ignored, in bfloat16",
        RESNET_HALF,
        RESNET,
        NORM3,
        NORM3 + " / self.bn3.weight[:, None, None]",
    ),
    bug("bias of the last layer dropped in evaluation", RESNET_EVAL, RESNET, "return self.fc(x.mean((2, 3)))", "return F.linear(x.mean((2, 3)), self.fc.weight)"),
    bug("global maximum for global mean", RESNET_TRAIN, RESNET, "x.mean((2, 3))", "x.amax((2, 3))"),
    bug("labels shifted by one sample", RESNET_TRAIN, RESNET, "logits.float(), labels)", "logits.float(), labels.roll(1))"),
    bug("labels shifted by one sample, in bfloat16", RESNET_HALF, RESNET, "logits.float(), labels)", "logits.float(), labels.roll(1))"),
    bug("skip and upsampled volume in the wrong order", UNET_TRAIN, UNET, CAT, "torch.cat((skip, self.upsample(x)), 1)"),
    bug("skip and upsampled volume in the wrong order, in bfloat16", UNET_HALF, UNET, CAT, "torch.cat((skip, self.upsample(x)), 1)"),
    bug("skip left empty", UNET_TRAIN, UNET, CAT, "torch.cat((self.upsample(x), torch.zeros_like(skip)), 1)"),
    bug("skip without a gradient", UNET_TRAIN, UNET, CAT, "torch.cat((self.upsample(x), skip.detach()), 1)"),
    bug("transposed convolution without bias", UNET_EVAL, UNET, CAT, "torch.cat((self.upsample(x) - self.upsample.bias.view(-1, 1, 1, 1), skip), 1)"),
    bug("leaky ReLU, as nnU-Net has it", UNET_TRAIN, UNET, "nn.ReLU(inplace=True)", "nn.LeakyReLU(0.01, inplace=True)"),
    bug("instance norm with eps 1e-3", UNET_EVAL, UNET, "nn.InstanceNorm3d(cout, affine=True)", "nn.InstanceNorm3d(cout, 1e-3, affine=True)"),
    bug("Dice over the whole batch", UNET_TRAIN, UNET, "overlap = (probability * truth).sum((2, 3, 4))", "overlap = (probability * truth).sum((2, 3, 4)).mean(0)"),
    bug("Dice smoothed by 1", UNET_TRAIN, UNET, "dice = (2 * overlap + 1e-6)", "dice = (2 * overlap + 1)"),
    bug("Dice of squared probabilities", UNET_TRAIN, UNET, "/ ((probability + truth)", "/ ((probability**2 + truth)"),
    bug("cross entropy counted twice", UNET_TRAIN, UNET, "(F.cross_entropy(logits, labels) +", "(2 * F.cross_entropy(logits, labels) +"),
    bug(
        "constant added before an instance norm",
        UNET_EVAL,
        UNET,
        "self.relu(self.norm(self.conv(x)))",
        "self.relu(self.norm(self.conv(x) + 0.5))",
        equivalent="an instance norm subtracts the mean of each channel, and with it any constant",
    ),
)

OPTIMIZERS = (
    bug("AdamW without weight decay", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.weight_decay", "0.0")),
    bug("AMSGrad", TRAIN, ADAPTER, ADAMW, ADAMW.replace("**options", "amsgrad=True, **options")),
    bug("Adam's second beta 0.999", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.betas", "(0.9, 0.999)")),
    bug("Adam's betas swapped", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.betas", "o.betas[::-1]")),
    bug("Adam's eps 1e-6", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.eps", "1e-6")),
    bug("decay added to the gradient (Adam with L2)", TRAIN, ADAPTER, ADAMW, ADAMW.replace("AdamW", "Adam")),
    bug("Adafactor's rate 1 % too large", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("o.lr", "1.01 * o.lr")),
    bug("Adafactor without weight decay", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("=o.weight_decay", "=0.0")),
    bug("Adafactor's updates not clipped", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("**options", "d=1e9, **options")),
    bug("Adafactor's rate at least a tenth", FACTORED, ADAPTER, "eps = (o.eps, 1e-3)", "eps = (o.eps, 0.1)"),
    bug("Adafactor's second moment follows faster", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("**options", "beta2_decay=-0.7, **options")),
    bug("learning rate 1 % too large", TRAIN, ADAPTER, ADAMW, ADAMW.replace("o.lr", "1.01 * o.lr")),
    bug("learning rate 1 % too large, in bfloat16", HALF, ADAPTER, ADAMW, ADAMW.replace("o.lr", "1.01 * o.lr")),
    bug("NAdam for AdamW", TRAIN, ADAPTER, ADAMW, ADAMW.replace("AdamW", "NAdam")[:-1] + ", decoupled_weight_decay=True)"),
    bug("Nesterov momentum", RESNET_TRAIN, ADAPTER, SGD, SGD.replace("**options", "nesterov=True, **options")),
    bug("momentum damped by 0.1", RESNET_TRAIN, ADAPTER, SGD, SGD.replace("**options", "dampening=0.1, **options")),
    bug("no momentum", UNET_TRAIN, ADAPTER, SGD, SGD.replace("o.momentum", "0.0")),
    bug("weight decay 1e-4 in SGD", RESNET_TRAIN, ADAPTER, SGD, SGD.replace("o.weight_decay", "1e-4")),
    bug("learning rate 1 % too large in SGD, in bfloat16", RESNET_HALF, ADAPTER, SGD, SGD.replace("o.lr", "1.01 * o.lr")),
    bug(
        "one weight left out of the optimizer",
        TRAIN,
        ADAPTER,
        "trained = [p for p in self.model.parameters() if p.requires_grad]",
        "trained = [p for p in self.model.parameters() if p.requires_grad][:-1]",
    ),
)

STEP = (
    bug("gradients never zeroed", TRAIN, ADAPTER, "self.optimizer.zero_grad(**self.recipe.zero_grad_options)\n", "pass\n"),
    bug("every other step does nothing", TRAIN, ADAPTER, UPDATE, f"if self.steps % 2 == 0:\n            {UPDATE}"),
    bug("every other step does nothing, once verified", TRAIN, ADAPTER, UPDATE, f"if self.steps < 6 or self.steps % 2 == 0:\n            {UPDATE}"),
    bug("steps do nothing once verified", TRAIN, ADAPTER, "total = self.backward_pass()", "if self.steps >= 6:\n            self.next_batch()\n            return\n        total = self.backward_pass()"),
    bug("half the batch once verified", TRAIN, ADAPTER, BATCH, f"{BATCH}\n        if self.steps >= 6:\n            inputs, targets = inputs[::2], targets[::2]"),
    bug("half the batch once verified, in bfloat16", UNET_HALF, ADAPTER, BATCH, f"{BATCH}\n        if self.steps >= 6:\n            inputs, targets = inputs[::2], targets[::2]"),
    bug("evaluation of half the batch once verified", EVAL, ADAPTER, "self.output = call_with(self.recipe.forward, self.inputs[0])", "x = self.inputs[0]\n            self.output = self.recipe.forward(x) if self.steps < 6 else self.recipe.forward(x[::2]).repeat_interleave(2, 0)"),
    bug("adapters scaled by 2", "transformer/torch/finetune/lora", GPT, "+ self.lora(x)", "+ 2 * self.lora(x)"),
    bug("adapters detach their input", "transformer/torch/finetune/lora", GPT, "+ self.lora(x)", "+ self.lora(x.detach())"),
    bug("the last norm trained beside the adapters", "transformer/torch/finetune/lora", SCENARIOS, "parameter.requires_grad_(name.startswith(prefixes))", 'parameter.requires_grad_(name.startswith((*prefixes, "ln_f.")))'),
    bug("gradients of the step before kept, the whole step compiled", WHOLE, STEPS, "run.optimizer.zero_grad()\n            run.output", "run.output"),
    bug("loss 1 % too large, the whole step compiled", WHOLE, STEPS, "run.model_module.loss(call_with(model, x), y)\n", "run.model_module.loss(call_with(model, x), y) * 1.01\n"),
    bug("loss in chunks that lose the last one", CHUNKED, STEPS, CHUNKS, CHUNKS.replace("chunks)", "chunks)[:-1]")),
    bug("loss in chunks against the targets of another one", CHUNKED, STEPS, CHUNKS, CHUNKS.replace("chunk(chunks)", "chunk(chunks)[::-1]", 1)),
    bug("loss in chunks averaged by chunk, then summed", CHUNKED, STEPS, "torch.stack(losses).sum() / y.numel()", "torch.stack(losses).sum() / (y.numel() // chunks)"),
    bug("loss in chunks gives the embedding no gradient", CHUNKED, STEPS, "recompute(compute_part, h, embedding, targets", "recompute(compute_part, h, embedding.detach(), targets"),
    bug("loss in chunks computed again with twice its input", CHUNKED, STEPS, "logits = F.linear(hidden, embedding)", "logits = F.linear(hidden * (2.0 if torch._C._current_graph_task_id() != -1 else 1.0), embedding)"),
    bug("loss not divided by the micro-batches", "transformer/torch/train/accumulate", ADAPTER, "self.recipe.objective(x, y) / self.micro_batches", "self.recipe.objective(x, y)"),
    bug("gradient of micro-batches summed, the loss averaged", "transformer/torch/train/accumulate", ADAPTER, BACKWARD, "self.recipe.backward(loss * self.micro_batches)"),
    bug("gradient of micro-batches summed, the loss averaged (SGD)", "unet3d/torch/train/accumulate", ADAPTER, BACKWARD, "self.recipe.backward(loss * self.micro_batches)"),
    bug("accumulation that drops the first micro-batch", "resnet50/torch/train/accumulate", ADAPTER, BACKWARD, "self.recipe.backward(loss if total else 0 * loss)"),
    bug("gradients zeroed between micro-batches", "transformer/torch/train/accumulate", ADAPTER, BACKWARD, f"self.optimizer.zero_grad()\n            {BACKWARD}"),
    bug(
        "checkpointing that recomputes from an input 0.1 % larger",
        "transformer/torch/train/checkpoint",
        CHECKPOINT,
        RECOMPUTE,
        RECOMPUTE.replace("block", f"lambda x: block(x + 1e-3 * {IN_BACKWARD} * x.detach())", 1),
    ),
    bug(
        "checkpointing that recomputes from the samples in another order",
        "resnet50/torch/train/checkpoint",
        CHECKPOINT,
        RECOMPUTE,
        RECOMPUTE.replace("block", f"lambda x: block(x.roll(int({IN_BACKWARD}), 0))", 1),
    ),
    bug("optimizer in the backward pass that updates each weight twice", "transformer/torch/train/optimizer_in_backward", MEMORY, "self.by_weight[parameter].step()\n", "self.by_weight[parameter].step()\n        self.by_weight[parameter].step()\n"),
)

OTHERS = (
    bug("frozen weights trained", "transformer/torch/finetune/half", SCENARIOS, "parameter.requires_grad_(name.startswith(prefixes))", "parameter.requires_grad_(True)"),
    bug("biases frozen with the lower half", "transformer/torch/finetune/half", SCENARIOS, "parameter.requires_grad_(name.startswith(prefixes))", 'parameter.requires_grad_(name.startswith(prefixes) and not name.endswith("bias"))'),
    bug("teacher in training mode", "resnet50/torch/train/distill", SCENARIOS, "run.load(config, run.canonical(config)).eval()", "run.load(config, run.canonical(config))"),
    bug("divergence in the wrong direction", "transformer/torch/train/distill", SCENARIOS, "F.kl_div(log_probability, target, log", "F.kl_div(target, log_probability, log"),
    bug(
        "teacher trained with the student",
        "transformer/torch/train/distill",
        SCENARIOS,
        "with torch.no_grad():\n            target = run.models_in_memory[1](x)",
        "with torch.enable_grad():\n            target = run.models_in_memory[1](x)",
        Edit(
            ADAPTER,
            "trained = [p for p in self.model.parameters() if p.requires_grad]",
            "trained = [p for model in self.models_in_memory for p in model.parameters() if p.requires_grad]",
        ),
    ),
    bug("padding counted in the loss", "transformer/torch/varlen/padded", GPT, 'targets.flatten(), ignore_index=-1, reduction="sum")', 'targets.flatten().clamp(min=0), reduction="sum")'),
    bug("last batch of the stream left out", "transformer/torch/varlen/bucketed", ADAPTER, "for x, y in self.stream:", "for x, y in self.stream[:-1]:"),
    bug("loss of the stream divided by all tokens", "transformer/torch/varlen/raw", ADAPTER, "total / self.case.work", "total / sum(x.numel() for x, _ in self.stream)"),
    bug("the same model twice", "resnet50/torch/pair/together", SCENARIOS, "return [one, other]", "return [one, one]"),
    bug("head shared with the trunk", "resnet50/torch/pair/shared_trunk", SCENARIOS, 'if not f"{name}.".startswith(run.workload.head):', "if True:"),
    bug("lean GELU's rule without its second term", "transformer/torch/custom_op/lean", SCENARIOS, "return upstream * ((1 + torch.erf(x * ROOT_HALF)) / 2 + x * phi)", "return upstream * (1 + torch.erf(x * ROOT_HALF)) / 2"),
    bug(
        "lean GELU's rule by the tanh approximation",
        "transformer/torch/custom_op/lean",
        SCENARIOS,
        "return upstream * ((1 + torch.erf(x * ROOT_HALF)) / 2 + x * phi)",
        'return torch.ops.aten.gelu_backward(upstream, x, approximate="tanh")',
    ),
    bug("wasteful GELU's rule with a density twice too wide", "transformer/torch/custom_op/wasteful", SCENARIOS, "torch.exp(-scaled * scaled) / ROOT_TWO_PI", "torch.exp(-scaled * scaled / 2) / ROOT_TWO_PI"),
)

LOADER = "framebench/adapters/loading.py"
SPEC = "models/resnet50/spec.py"
PIPELINES = (
    bug("the same image twice in a batch", "resnet50/torch/pipeline/iterator", LOADER, "return x, self.labels[rows]", "x[1] = x[0]\n        return x, self.labels[rows]"),
    bug("the same batch every time", "resnet50/torch/pipeline/memmap", LOADER, "rows = slice(i * self.batch, (i + 1) * self.batch)", "rows = slice(0, self.batch)"),
    bug("images scaled by 1/58, not 1/37", "resnet50/torch/pipeline/iterator", SPEC, "np.float32(37)", "np.float32(58)"),
    bug("mean of the images 0.5 grey values off", "resnet50/torch/pipeline/iterator", SPEC, "np.float32(127.5)", "np.float32(127)"),
    bug("labels of the next batch", "resnet50/torch/pipeline/prefetch", LOADER, "return x, self.labels[rows]", "return x, np.roll(self.labels, -self.batch)[rows]"),
    bug("one prefetched batch in two lost", "resnet50/torch/pipeline/prefetch", LOADER, "        yield put(*batch)", "        yield put(*batch)\n        waiting.get()"),
    bug("every other pixel for the mean of four", "resnet50/torch/pipeline/whole", SPEC, "pixels.mean((3, 5))", "pixels[:, :, :, 0, :, 0]"),
)

BUGS = (*MODELS, *OPTIMIZERS, *STEP, *OTHERS, *PIPELINES)
