"""Bugs planted in token-by-token generation, and in what is kept in 8 bits."""

from __future__ import annotations

from tests.mutants.bug import bug

TORCH, JAX, JITTOR = (f"framebench/adapters/{name}/generation.py" for name in ("torch", "jax", "jittor"))
SHARED = "framebench/adapters/caches.py"
QUANTIZED = "framebench/adapters/torch/quantized.py"
GPT, FUSED = "models/transformer/torch_model.py", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
IN_TORCH, IN_JAX, IN_JITTOR = (f"transformer/{name}/generate/static_cache" for name in ("torch", "jax", "jittor"))
GROWING, NO_CACHE = "transformer/torch/generate/growing_cache", "transformer/jax/generate/no_cache"
IN_8_BITS, BY_BNB = (f"transformer/torch/train/{name}/b4/cpu" for name in ("adamw_8bit", "adamw_8bit_bnb"))

GENERATION = (
    bug("each new token at the first position", IN_TORCH, TORCH, "self.run.model(tokens, start)", "self.run.model(tokens, 0)"),
    bug("one cache for all layers", IN_TORCH, SHARED, "self.cache.extend(next(self.layers),", "self.cache.extend(0,"),
    bug("no causal mask in the prompt", IN_TORCH, TORCH, "is_causal=q.shape[2] > 1", "is_causal=False"),
    bug("the loss of the prompt left out", IN_TORCH, TORCH, "self.prompt_loss.clone()", "0 * self.prompt_loss"),
    bug("the prompt's first token forgotten", GROWING, SHARED, "        old = self.layers[layer]\n", "        old = self.layers[layer]\n        old = tuple(t[:, :, start > 8 :] for t in old) if old else None\n"),
    bug("each new token at the first position, in JAX", IN_JAX, JAX, "logits = model(tokens, start)", "logits = model(tokens, None)"),
    bug("keys in the place of values", IN_JAX, JAX, "self.write(old_values, v)", "self.write(old_values, k)"),
    bug("a token sees the next place of the cache", IN_JAX, JAX, "<= self.start +", "<= 1 + self.start +"),
    bug("logits of the token before", NO_CACHE, JAX, "dynamic_slice_in_dim(model(x), position, 1, 1)", "dynamic_slice_in_dim(model(x), position - 1, 1, 1)"),
    bug("attention to the cache scaled by 1/d", IN_JITTOR, JITTOR, "q.shape[-1] ** -0.5", "q.shape[-1] ** -1.0"),
    bug("what is cached 1 % too large", IN_JITTOR, SHARED, "whole[:, :, start:end] = part", "whole[:, :, start:end] = part * 1.01"),
)

EIGHT_BITS = (
    bug("no weight decay, moments in 8 bits", IN_8_BITS, QUANTIZED, "o.eps, o.weight_decay, **options", "o.eps, 0.0, **options"),
    bug("Adam's second beta 0.999, moments in 8 bits", IN_8_BITS, QUANTIZED, "o.betas, o.eps, o.weight_decay, **", "(o.betas[0], 0.999), o.eps, o.weight_decay, **"),
    bug("no weight decay, moments in 8 bits by bitsandbytes", BY_BNB, QUANTIZED, "o.eps, o.weight_decay)\n", "o.eps, 0.0)\n"),
    bug("Adam's second beta 0.999, moments in 8 bits by bitsandbytes", BY_BNB, QUANTIZED, "o.betas, o.eps, o.weight_decay)\n", "(o.betas[0], 0.999), o.eps, o.weight_decay)\n"),
    bug("causal mask dropped, weights in 8 bits", "transformer/torch/eval/int8_weights", GPT, FUSED, FUSED.replace("True", "False")),
    bug("causal mask dropped, products in 8 bits", "transformer/torch/eval/int8_dynamic", GPT, FUSED, FUSED.replace("True", "False")),
)

BUGS = (*GENERATION, *EIGHT_BITS)
