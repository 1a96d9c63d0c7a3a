"""Bugs planted in what JAX computes, with Flax and optax."""

from __future__ import annotations

from tests.mutants.bug import bug

GPT, RESNET, UNET = (f"models/{name}/flax_model.py" for name in ("transformer", "resnet50", "unet3d"))
ACCUMULATION = "framebench/adapters/jax/accumulation.py"
WEIGHTS = "models/flax_weights.py"
ADAPTER, STEPS, SCENARIOS, CHECKPOINT = (
    f"framebench/adapters/jax/{name}.py" for name in ("adapter", "steps", "scenarios", "checkpoint")
)

LIBRARY = "partial(jax.nn.dot_product_attention, is_causal=True)"
EXACT = "exact_gelu: Gelu = partial(nnx.gelu, approximate=False)"
MLP = "return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))"
ATTENTION = "x = x + self.attention(self.ln1(x))"
HEAD = "self.head(self.wte, self.ln_f(self.decode(x)))"
NORM3 = "y = self.bn3(self.conv3(y))"
NORM = "nnx.BatchNorm(channels, momentum=0.9, epsilon=1e-5, **types)"
CAT = "jnp.concatenate((self.upsample(x), skip), -1)"
FACTORED = "transformer/jax/train/adafactor"
ADAFACTOR = "o.lr,\n            min_dim_size_to_factor=1,\n            weight_decay_rate=decay,\n            eps=o.eps**2,\n            **options,"
ADAMW = "optax.adamw(o.lr, *o.betas, eps=o.eps, weight_decay=o.weight_decay, **options)"
SGD = "optax.sgd(o.lr, o.momentum, **options)"
UPDATED = "(loss, stats), grads = gradient(params, stats, constants, x, y)"
APPLIED = "params = optax.apply_updates(params, updates)"
BATCH = "self.inputs = self.next_batch()"
PARTS = "for x, y in self.split_batch():"
TOTAL = "jax.tree.map(lambda mean, grad: mean + grad / count, mean_grads, grads)"

TRAIN, EVAL, HALF = (f"transformer/jax/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))
RESNET_TRAIN, RESNET_EVAL, RESNET_HALF = (f"resnet50/jax/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))
UNET_TRAIN, UNET_EVAL, UNET_HALF = (f"unet3d/jax/{name}" for name in ("train/fp32", "eval/no_grad", "train/amp_bf16"))
UNET_REWRITTEN = "unet3d/jax/train/rewrite"

MODELS = (
    bug("GELU by its tanh approximation (Flax's default)", TRAIN, GPT, EXACT, EXACT.replace("False", "True")),
    bug("attention scaled by 1/d", EVAL, GPT, LIBRARY, LIBRARY[:-1] + ", scale=1 / 8)"),
    bug("attention scaled by 1/d, in bfloat16", HALF, GPT, LIBRARY, LIBRARY[:-1] + ", scale=1 / 8)"),
    bug("causal mask dropped, in bfloat16", HALF, GPT, LIBRARY, LIBRARY.replace("True", "False")),
    bug("causal mask lets each token see the next one, in float16", "transformer/jax/eval/fp16", GPT, "jnp.tril(jnp.ones((t, t), bool))", "jnp.tril(jnp.ones((t, t), bool), 1)"),
    bug("attention not scaled, in float16", "transformer/jax/eval/fp16", GPT, " / d**0.5", ""),
    bug("layer norm with eps 1e-6 (Flax's default)", EVAL, GPT, "self.ln_f = nnx.LayerNorm(c.width, epsilon=1e-5,", "self.ln_f = nnx.LayerNorm(c.width, epsilon=1e-6,"),
    bug("layer norm without its shift", EVAL, GPT, HEAD, "self.head(self.wte, self.ln_f(self.decode(x)) - self.ln_f.bias[...])"),
    bug("residual around the attention dropped", TRAIN, GPT, ATTENTION, "x = self.attention(self.ln1(x))"),
    bug("residual around the norm, not the input", TRAIN, GPT, MLP, "x = self.ln2(x)\n        return x + self.fc2(self.gelu(self.fc1(x)))"),
    bug("positions shifted by one", EVAL, GPT, "self.wpe(positions if", "self.wpe((positions + 1) % len(positions) if"),
    bug("branch detached", TRAIN, GPT, MLP, MLP.replace("self.ln2(x)", "jax.lax.stop_gradient(self.ln2(x))")),
    bug("bias of a linear layer dropped, in bfloat16", HALF, GPT, MLP, "return x + self.fc2(self.gelu(self.fc1(self.ln2(x)))) - self.fc2.bias[...]"),
    bug("layers in reverse order", "transformer/jax/train/scan", GPT, "out_axes=nnx.Carry)", "out_axes=nnx.Carry, reverse=True)"),
    bug("targets shifted by one token", TRAIN, GPT, "return compute_entropies(logits, targets).mean()", "return compute_entropies(logits, jnp.roll(targets, 1, 1)).mean()"),
    bug("loss averaged over the sequences, summed over their tokens", TRAIN, GPT, "return compute_entropies(logits, targets).mean()", "return compute_entropies(logits, targets).sum(1).mean()"),
    bug("padding counted in the loss", "transformer/jax/varlen/padded", GPT, "jnp.where(targets < 0, 0, entropies).sum()", "entropies.sum()"),
    bug("lean GELU's rule without its second term", "transformer/jax/custom_op/lean", GPT, "_, _, distribution, density = compute_phi(x)\n    return (g * (distribution + x * density),)", "_, _, distribution, density = compute_phi(x)\n    return (g * distribution,)"),
    bug("wasteful GELU's rule with the input of the wrong sign", "transformer/jax/custom_op/wasteful", GPT, "x, _, _, distribution, density = saved\n    return (g * (distribution + x * density),)", "x, _, _, distribution, density = saved\n    return (g * (distribution - x * density),)"),
    bug("padding on one side (Flax's SAME)", RESNET_TRAIN, RESNET, "padding=kernel // 2", 'padding="SAME"'),
    bug("batch norm with momentum 0.99 (Flax's default)", RESNET_TRAIN, RESNET, NORM, NORM.replace("0.9,", "0.99,")),
    bug("batch norm with momentum 0.1 (PyTorch's, which is the weight of the new)", RESNET_TRAIN, RESNET, NORM, NORM.replace("0.9,", "0.1,")),
    bug("batch norm with eps 1e-3", RESNET_TRAIN, RESNET, NORM, NORM.replace("1e-5", "1e-3")),
    bug("batch norm that ignores its running mean in evaluation", RESNET_EVAL, RESNET, NORM3, "y = self.bn3(self.conv3(y) + self.bn3.mean[...])"),
    bug("batch norm without its shift, in bfloat16", RESNET_HALF, RESNET, NORM3, "y = self.bn3(self.conv3(y)) - self.bn3.bias[...].astype(y.dtype)"),
    bug("average pool for max pool", RESNET_TRAIN, RESNET, "nnx.max_pool(x, (3, 3)", "nnx.avg_pool(x, (3, 3)"),
    bug("shortcut without its batch norm", RESNET_EVAL, RESNET, "for layer in self.downsample:", "for layer in self.downsample[:1]:"),
    bug("bias of the last layer dropped in evaluation", RESNET_EVAL, RESNET, "return self.fc(x.mean((1, 2)))", "return self.fc(x.mean((1, 2))) - self.fc.bias[...]"),
    bug("labels shifted by one sample, in bfloat16", RESNET_HALF, RESNET, "labels(wide, labels).mean()", "labels(wide, jnp.roll(labels, 1)).mean()"),
    bug("skip and upsampled volume in the wrong order", UNET_TRAIN, UNET, CAT, "jnp.concatenate((skip, self.upsample(x)), -1)"),
    bug("skip left empty, in bfloat16", UNET_HALF, UNET, CAT, "jnp.concatenate((self.upsample(x), 0 * skip), -1)"),
    bug("transposed convolution without bias", UNET_EVAL, UNET, CAT, "jnp.concatenate((self.upsample(x) - self.upsample.bias[...], skip), -1)"),
    bug("instance norm with eps 1e-3", UNET_TRAIN, UNET, "nnx.InstanceNorm(cout, epsilon=1e-5,", "nnx.InstanceNorm(cout, epsilon=1e-3,"),
    bug("rewritten convolution with its planes in reverse", UNET_REWRITTEN, UNET, "for i in range(k)], -1)", "for i in range(k)[::-1]], -1)"),
    bug("rewritten transposed convolution with a flipped kernel", UNET_REWRITTEN, UNET, "kernel[::-1, ::-1, ::-1])", "kernel)"),
    bug("Dice without its factor 2", UNET_TRAIN, UNET, "dice = (2 * overlap", "dice = (overlap"),
    bug("kernel of the transposed convolution not flipped", UNET_EVAL, WEIGHTS, "return np.flip(np.moveaxis(w, (0, 1), (-2, -1)), spatial)", "return np.moveaxis(w, (0, 1), (-2, -1))"),
    bug("square weights not transposed", EVAL, WEIGHTS, "return w.T", "return w if w.shape[0] == w.shape[1] else w.T"),
    bug(
        "softmax without its maximum subtracted",
        "transformer/jax/eval/fp16",
        GPT,
        "jax.nn.softmax(masked)",
        "(jnp.exp(masked) / jnp.exp(masked).sum(-1, keepdims=True))",
        equivalent="the maximum only guards against overflow, which scores of this size are far from; it cancels",
    ),
)

OPTIMIZERS = (
    bug("Adafactor's rate 1 % too large", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("o.lr", "1.01 * o.lr")),
    bug("Adafactor's weight decay not times the rate", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("=decay", "=o.weight_decay")),
    bug("Adafactor's updates not clipped", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("**options", "clipping_threshold=None, **options")),
    bug("Adafactor's rate not of the weight's size", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("**options", "multiply_by_parameter_scale=False, **options")),
    bug("Adafactor's second moment follows faster", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("**options", "decay_rate=0.7, **options")),
    bug("Adafactor with optax's own least size of a matrix", FACTORED, ADAPTER, ADAFACTOR, ADAFACTOR.replace("=1", "=128")),
    bug("AdamW with optax's own weight decay, 1e-4", TRAIN, ADAPTER, ADAMW, ADAMW.replace(", weight_decay=o.weight_decay", "")),
    bug("weight decay on matrices alone", TRAIN, ADAPTER, ADAMW, ADAMW[:-1] + ", mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params))"),
    bug("AMSGrad", TRAIN, ADAPTER, ADAMW, "optax.chain(optax.scale_by_amsgrad(*o.betas, o.eps), optax.add_decayed_weights(o.weight_decay), optax.scale(-o.lr))"),
    bug("Adam with Nesterov momentum", TRAIN, ADAPTER, ADAMW, ADAMW[:-1] + ", nesterov=True)"),
    bug("Adam's second beta 0.999 (optax's default)", TRAIN, ADAPTER, ADAMW, ADAMW.replace("*o.betas", "o.betas[0]")),
    bug("Adam's eps under the root", TRAIN, ADAPTER, ADAMW, ADAMW.replace("eps=o.eps", "eps=0.0, eps_root=o.eps")),
    bug("Adam's first moment in bfloat16", TRAIN, ADAPTER, ADAMW, ADAMW[:-1] + ", mu_dtype=jnp.bfloat16)"),
    bug("no weight decay, the first moment in bfloat16", "transformer/jax/train/mu_bf16", ADAPTER, ADAMW, ADAMW.replace("=o.weight_decay", "=0.0")),
    bug("Adam's second beta 0.999, the first moment in bfloat16", "transformer/jax/train/mu_bf16", ADAPTER, ADAMW, ADAMW.replace("*o.betas", "o.betas[0]")),
    bug("learning rate 1 % too large, in bfloat16", HALF, ADAPTER, ADAMW, ADAMW.replace("o.lr", "1.01 * o.lr")),
    bug("gradient clipped to norm 0.1", UNET_TRAIN, ADAPTER, SGD, f"optax.chain(optax.clip_by_global_norm(0.1), {SGD})"),
    bug("Nesterov momentum", RESNET_TRAIN, ADAPTER, SGD, "optax.sgd(o.lr, o.momentum, nesterov=True)"),
    bug("weight decay 1e-4 in SGD", RESNET_TRAIN, ADAPTER, SGD, f"optax.chain(optax.add_decayed_weights(1e-4), {SGD})"),
)

STEP = (
    bug("running statistics never updated", RESNET_TRAIN, ADAPTER, UPDATED, UPDATED.replace("(loss, stats)", "(loss, _)")),
    bug("one gradient zeroed", TRAIN, ADAPTER, UPDATED, f'{UPDATED}\n            grads["ln_f"]["scale"] *= 0'),
    bug("one gradient zeroed, in bfloat16", UNET_HALF, ADAPTER, UPDATED, f'{UPDATED}\n            grads["up"][0]["upsample"]["bias"] *= 0'),
    bug("every update applied twice", UNET_TRAIN, ADAPTER, APPLIED, APPLIED.replace("apply_updates(params, updates)", "apply_updates(optax.apply_updates(params, updates), updates)")),
    bug("half the batch once verified", TRAIN, ADAPTER, PARTS, f"{PARTS}\n            if self.steps >= 6:\n                x, y = x[::2], y[::2]"),
    bug("steps do nothing once verified", TRAIN, ADAPTER, BATCH, f"{BATCH}\n        if self.steps >= 6:\n            return"),
    bug("every other step does nothing, once verified, in bfloat16", HALF, ADAPTER, BATCH, f"{BATCH}\n        if self.steps >= 6 and self.steps % 2:\n            return"),
    bug("loss in chunks, of the last one alone", "transformer/jax/train/chunked_loss", STEPS, "return total + run.model_module.loss_sum(embedding.attend(hidden), targets), None", "return run.model_module.loss_sum(embedding.attend(hidden), targets), None"),
    bug("loss in chunks of every eighth token, its targets of neighbours", "transformer/jax/train/chunked_loss", STEPS, "hidden.reshape(chunks, -1, hidden.shape[-1])", "hidden.reshape(-1, chunks, hidden.shape[-1]).swapaxes(0, 1)"),
    bug("micro-batches summed, the loss averaged", "transformer/jax/train/accumulate", ACCUMULATION, TOTAL, TOTAL.replace("grad / count", "grad")),
    bug("the last micro-batch alone", "resnet50/jax/train/accumulate", ACCUMULATION, TOTAL, "grads"),
    bug("running statistics of each micro-batch start anew", "resnet50/jax/train/accumulate", ACCUMULATION, "gradient(params, stats, constants, micro_x, micro_y)", "gradient(params, start[1], constants, micro_x, micro_y)"),
    bug("checkpointing that detaches each block's input", "transformer/jax/train/checkpoint", CHECKPOINT, "return checkpoint_block(block)", "return checkpoint_block(lambda self, x: block(self, jax.lax.stop_gradient(x)))"),
    bug(
        "micro-batches of every k-th sample",
        "transformer/jax/train/accumulate",
        ACCUMULATION,
        "return array.reshape(count, -1, *array.shape[1:])",
        "return array.reshape(-1, count, *array.shape[1:]).swapaxes(0, 1)",
        equivalent="the mean of the micro-batches' gradients does not depend on which sample is in which, as nothing couples samples here",
    ),
)

OTHERS = (
    bug("adapters of twice the first factor", "transformer/jax/finetune/lora", GPT, "return nnx.LoRALinear(", "return type('Twice', (nnx.LoRALinear,), {'__call__': lambda s, x: 2 * nnx.LoRALinear.__call__(s, x) - nnx.Linear.__call__(s, x)})("),
    bug("frozen weights trained", "transformer/jax/finetune/half", SCENARIOS, "run.recipe.is_trained = lambda name: name.startswith(prefixes)", "run.recipe.is_trained = lambda name: True"),
    bug("the last norm frozen too", "transformer/jax/finetune/half", SCENARIOS, "run.recipe.is_trained = lambda name: name.startswith(prefixes)", 'run.recipe.is_trained = lambda name: name.startswith(prefixes) and "ln_f" not in name'),
    bug("teacher in training mode", "resnet50/jax/train/distill", SCENARIOS, "run.load_canonical(config, training=False)", "run.load_canonical(config, training=True)"),
    bug("divergence in the wrong direction", "transformer/jax/train/distill", SCENARIOS, "compute_divergence(run_teacher(constants, x), logits)", "compute_divergence(logits, run_teacher(constants, x))"),
    bug("batch norm by the batch in evaluation", RESNET_EVAL, ADAPTER, "model.eval()", "model.train()"),
    bug("evaluation by the batch leaves the running statistics as they are", "resnet50/jax/eval/batch_stats", ADAPTER, "self.stats = stats or self.stats", "pass"),
    bug("the same model twice", "resnet50/jax/pair/together", SCENARIOS, "pair = [first, second]", "pair = [first, first]"),
    bug("one of the pair's losses lost", "resnet50/jax/pair/in_turn", ADAPTER, "self.output += self.program(", "self.output = self.program("),
    bug("loss of the stream divided by all tokens", "transformer/jax/varlen/bucketed", ADAPTER, "self.output = total / self.case.work", "self.output = total / sum(y.size for _, y in self.stream)"),
    bug("images not scaled", "resnet50/jax/pipeline/iterator", "models/resnet50/spec.py", " / np.float32(37)", ""),
)

BUGS = (*MODELS, *OPTIMIZERS, *STEP, *OTHERS)
